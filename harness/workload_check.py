"""Checks the options of workloads before a live run, in a process of its own.

The classes import a training library, which the process that drives a run never does. So
they are built in a short-lived process: ``python -m harness.workload_check``, a pool as JSON
on its standard input and the problems as a JSON list on its standard output.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.build import TARGET, build
from harness.contracts.training import Workload, WorkloadSpec
from harness.interrupts import run_command
from harness.problems import Problem, UserError

TIMEOUT_S = 180.0
_ROOT = Path(__file__).resolve().parent.parent


def workload_problems(workloads: Mapping[str, WorkloadSpec]) -> list[Problem | str]:
    """What is wrong with the options of these workloads; takes seconds, for the imports.

    Args:
        workloads: the workloads that a run will train, by name.
    """
    pool = {name: {TARGET: spec.target, **spec.options} for name, spec in workloads.items()}
    command = [sys.executable, "-m", "harness.workload_check"]
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(pool),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
    except subprocess.TimeoutExpired:
        fact = f"building the workloads took more than {TIMEOUT_S:g} s"
        return [Problem("workload.pool", fact, "try one of them alone")]
    if done.returncode == 0:
        return list(json.loads(done.stdout.splitlines()[-1]))
    last = (done.stderr.strip().splitlines() or ["no further text"])[-1]
    way_out = "correct its class, or choose another pool"
    return [Problem("workload.pool", f"a workload cannot be built ({last})", way_out)]


def drawn_problems(workload: Workload, place: str) -> list[Problem]:
    """Samples that come out of a random state: whoever fetches them in advance, or again after a
    rescale, would see others, and no two backends the same."""
    before = _random_states()
    first = workload.samples([0], [1])
    drawn = [name for name, state in _random_states().items() if state != before.get(name)]
    again = workload.samples([0], [1])
    if drawn:
        fact = f"samples() draws from the random state of {' and '.join(drawn)}"
    elif any((first[key] != again[key]).any() for key in first):
        fact = "samples() gives another sample when asked for the same again"
    else:
        return []
    way_out = "compute samples from the seed, the epoch and the id (docs/how-to-add-a-workload.md)"
    return [Problem(place, fact, way_out)]


def _random_states() -> dict[str, bytes]:
    """Of the libraries that the workload has imported."""
    states = {"Python": repr(random.getstate()).encode()}
    if numpy := sys.modules.get("numpy"):
        states["NumPy"] = repr(numpy.random.get_state(legacy=False)["state"]).encode()
    if torch := sys.modules.get("torch"):
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states


def main() -> int:
    """Build every workload of the pool on standard input and report what is wrong with them."""
    problems: list[str] = []
    for name, entry in json.load(sys.stdin).items():
        place = f"workload.pool.{name}"
        try:
            workload: Workload = build(entry, place)
        except UserError as error:
            problems += [str(problem) for problem in error.problems]
        else:
            problems += map(str, drawn_problems(workload, place))
    print(json.dumps(problems))
    return 0


if __name__ == "__main__":
    run_command(main)

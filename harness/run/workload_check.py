"""Check of workloads' options before a live run, in a separate process.

The classes import a training library, which the process that drives a run never does. So
they are built in a short-lived process: ``python -m harness.run.workload_check``, a pool as JSON
on its standard input and the problems as a JSON list on its standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.instantiate import build
from harness.configuration.named_classes import TARGET
from harness.contracts.workload import Workload, WorkloadSpec
from harness.errors import Problem, UserError
from harness.machine.interrupts import run_command

TIMEOUT_S = 180.0
NUM_TRIED = 8
"""Approximate number of samples that are fetched twice, spread over the set, because not all
samples may be drawn."""
_ROOT = Path(__file__).resolve().parents[2]


def workload_problems(
    workloads: Mapping[str, WorkloadSpec], *, drawn: bool = False
) -> list[Problem | str]:
    """Return the mistakes in the options of these workloads; takes seconds, because of imports.

    Args:
        workloads: the workloads that a run will train, by name.
        drawn: true if their samples may depend on the random states of the process that fetches
            them.
    """
    pool = {name: {TARGET: spec.target, **spec.options} for name, spec in workloads.items()}
    command = [sys.executable, "-m", "harness.run.workload_check", *(["--drawn"] * drawn)]
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
    hint = "correct its class, or choose another pool"
    return [Problem("workload.pool", f"a workload cannot be built ({last})", hint)]


def drawn_problems(workload: Workload, place: str, *, allowed: bool) -> list[Problem]:
    """Return a problem if a workload's samples depend on a random state.

    A process that fetches such samples in advance, or again after a rescale, would get other
    values. Training would then differ between backends. ``allowed``: samples may depend on the
    process's random states, because those are given to every process that fetches.
    """
    ids = range(0, workload.num_samples, max(1, workload.num_samples // NUM_TRIED))
    hint = "compute samples from the seed, the epoch and the id (docs/how-to/add-a-workload.md)"
    names: set[str] = set()
    for one in ids:
        before = _random_states()
        first = workload.samples([one], [1])
        after = _random_states()
        texts = {name: state.text for name, state in before.items()}
        names |= {name for name, state in after.items() if state.text != texts.get(name)}
        for state in before.values():
            state.restore()
        again = workload.samples([one], [1])
        if any((first[key] != again[key]).any() for key in first):
            fact = "samples() returns different values for the same id"
            if names:
                fact += ", even with the same random states of torch, NumPy and Python"
            return [Problem(place, fact, hint)]
    if not names or allowed:
        return []
    fact = f"samples() draws from the random state of {' and '.join(sorted(names))}"
    hint += ", or use backend=virtual_thread backend.drawn_samples=true"
    return [Problem(place, fact, hint)]


@dataclass(frozen=True)
class _State:
    """Random state of one library."""

    text: str
    """Text of the state, for comparison with another state."""
    restore: Callable[[], Any]
    """Function that makes this state the current one."""


def _random_states() -> dict[str, _State]:
    """Return the random states of the libraries that the workload has imported."""
    own = random.getstate()
    states = {"Python": _State(repr(own), lambda: random.setstate(own))}
    if numpy := sys.modules.get("numpy"):
        drawn = numpy.random.get_state()
        text = repr((drawn[1].tobytes(), *drawn[2:]))
        states["NumPy"] = _State(text, lambda: numpy.random.set_state(drawn))
    if torch := sys.modules.get("torch"):
        bits = torch.get_rng_state()
        text = repr(bits.numpy().tobytes())
        states["torch"] = _State(text, lambda: torch.set_rng_state(bits))
    return states


def main() -> int:
    """Build every workload of the pool on standard input and report all mistakes."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.run.workload_check", description=__doc__
    )
    parser.add_argument("--drawn", action="store_true", help="samples may be drawn at random")
    allowed = parser.parse_args().drawn
    try:
        pool: dict[str, Any] = json.load(sys.stdin)
    except ValueError as error:
        parser.error(f"standard input is no JSON of a pool ({error})")
    problems: list[str] = []
    for name, entry in pool.items():
        place = f"workload.pool.{name}"
        try:
            workload: Workload = build(entry, place, "workload")
        except UserError as error:
            problems += [str(problem) for problem in error.problems]
        else:
            problems += map(str, drawn_problems(workload, place, allowed=allowed))
    print(json.dumps(problems))
    return 0


if __name__ == "__main__":
    run_command(main)

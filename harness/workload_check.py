"""Checks the options of workloads before a live run, in a process of its own.

The classes import a training library, which the process that drives a run never does. So
they are built in a short-lived process: ``python -m harness.workload_check``, a pool as JSON
on its standard input and the problems as a JSON list on its standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.build import TARGET, build
from harness.contracts.training import WorkloadSpec
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


def main() -> int:
    """Build every workload of the pool on standard input and report what they refuse."""
    problems: list[str] = []
    for name, entry in json.load(sys.stdin).items():
        try:
            build(entry, f"workload.pool.{name}")
        except UserError as error:
            problems += [str(problem) for problem in error.problems]
    print(json.dumps(problems))
    return 0


if __name__ == "__main__":
    run_command(main)

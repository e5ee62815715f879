"""Simulated runs on record are those that their studies would make today.

A study's option that has got a default since, or a trace that was read anew, makes other runs: then
whoever repeats the study could not hold what comes out against the record.
"""

from pathlib import Path

import pytest

from harness import sweep
from harness.compose import options
from harness.experiment import Library
from harness.store import run_paths
from harness.study import load_study

REFERENCE = Path(__file__).parents[2] / "results" / "reference"
MACHINES = [path for path in REFERENCE.iterdir() if path.is_dir()]


def on_record():
    """Ids of the runs on record, of all machines, by study."""
    found = {}
    for machine in MACHINES:
        for path in run_paths(machine):
            found.setdefault(path.parent.name, set()).add(path.name)
    return found


ON_RECORD = on_record()
STUDIES = [name for name in options("study") if name in ON_RECORD]


@pytest.fixture(scope="module")
def library():
    return Library()


def planned(name, library, most):
    """Ids of up to ``most`` points of a study, from all over it."""
    study = load_study(name)
    points = study.points()
    points = points[:: -(-len(points) // most)]
    words = [*study.base, "results_dir=nowhere"]
    entries = sweep.plan_sweep(
        sweep.Sweep(name, words, points), library, check_workloads=False
    )
    return {entry.planned.run_id for entry in entries}


def missing(name, library, most):
    """Simulated points of a study that are not on record."""
    return {run for run in planned(name, library, most) - ON_RECORD[name] if "-simulated-" in run}

"""Simulated runs on record are those that their studies would make today.

An option that has got a default since, or a trace that is read otherwise, makes other runs: whoever
repeated the study could not hold what comes out against the record.
"""

from pathlib import Path

import pytest

from harness import sweep
from harness.archive import archive_of
from harness.compose import options
from harness.experiment import Library
from harness.store import run_paths
from harness.study import load_study

REFERENCE = Path(__file__).parents[2] / "results" / "reference"
ON_PHILLY = ("bench_elasticflow", "bench_philly", "edl_table3", "elasticflow_fig8b_philly")
"""Its 82,247 jobs take a while to read."""


def folders(name):
    """Of a study's records, on all machines."""
    found = [machine / name for machine in REFERENCE.iterdir() if machine.is_dir()]
    return [folder for folder in found if folder.exists() or archive_of(folder).is_file()]


RECORDED = [name for name in options("study") if folders(name)]


@pytest.fixture(scope="module")
def library():
    """Traces and profiles are those of many studies."""
    return Library()


def missing(name, library, most):
    """Of up to ``most`` points of a study, from all over it, the simulated ones not on record."""
    study = load_study(name)
    points = study.points()
    points = points[:: -(-len(points) // most)]
    words = [*study.base, "results_dir=nowhere"]
    entries = sweep.plan_sweep(sweep.Sweep(name, words, points), library, check_workloads=False)
    known = {path.name for folder in folders(name) for path in run_paths(folder)}
    planned = {entry.planned.run_id for entry in entries}
    return {run for run in planned - known if "-simulated-" in run}


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in ON_PHILLY])
def test_simulated_points_are_on_record(name, library):
    assert not missing(name, library, most=2)


@pytest.mark.long
@pytest.mark.parametrize("name", RECORDED)
def test_all_simulated_points_are_on_record(name, library):
    assert not missing(name, library, most=10**6)


def test_a_run_that_is_not_on_record_is_found(library, monkeypatch):
    monkeypatch.setattr(f"{__name__}.run_paths", lambda folder: iter(()))
    assert len(missing("saxena_fig6", library, most=2)) == 2

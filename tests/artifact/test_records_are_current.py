"""Simulated runs on record are those that their studies would make today.

An option that has got a default since, or a trace that is read otherwise, makes other runs: whoever
repeated the study could not hold what comes out against the record.
"""

import random

import pytest

from harness.configuration.study import load_study
from harness.results.store import run_paths
from harness.run.plan import Library
from harness.sweep import runner as sweep
from tests.artifact.recorded import RECORDED, folders

ON_PHILLY = ("bench_elasticflow", "bench_philly", "edl_table3", "elasticflow_fig8b_philly")
"""Its 82,247 jobs take a while to read."""
MANY = 8
"""Points of each study in the long tests; to plan all takes 10 to 25 min on two cores."""


@pytest.fixture(scope="module")
def library():
    """Traces and profiles are those of many studies."""
    return Library()


def missing(name, library, most, *, check_workloads=False):
    """Of up to ``most`` points of a study, drawn from all of them, the simulated not on record.

    Raises:
        UserError: a point cannot be planned.
    """
    study = load_study(name)
    points = study.points()
    points = random.Random(name).sample(points, min(most, len(points)))
    words = [*study.base, "results_dir=nowhere"]
    wanted = sweep.Sweep(name, words, points)
    entries = sweep.plan_sweep(wanted, library, check_workloads=check_workloads)
    known = {path.name for folder in folders(name) for path in run_paths(folder)}
    planned = {entry.planned.run_id for entry in entries}
    assert len(planned) == len(points)
    return {run for run in planned - known if "-simulated-" in run}


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in ON_PHILLY][::6])
def test_simulated_points_are_on_record(name, library):
    assert not missing(name, library, most=2)


@pytest.mark.long
@pytest.mark.parametrize("name", RECORDED)
def test_many_points_can_be_planned_and_simulated_ones_are_on_record(name, library):
    assert not missing(name, library, most=MANY, check_workloads=True)


@pytest.mark.soak
@pytest.mark.parametrize("name", RECORDED)
def test_all_points_can_be_planned_and_simulated_ones_are_on_record(name, library):
    assert not missing(name, library, most=10**6, check_workloads=True)


def test_a_run_that_is_not_on_record_is_found(library, monkeypatch):
    monkeypatch.setattr(f"{__name__}.run_paths", lambda folder: iter(()))
    assert len(missing("saxena_fig6", library, most=2)) == 2

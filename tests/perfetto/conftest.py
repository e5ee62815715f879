"""Runs whose timelines are tested: one simulated here, two of the reference that trained."""

from pathlib import Path

import pytest

from harness.results.store import REFERENCE, iter_runs, load_run
from harness.run.execute import execute
from harness.run.plan import plan
from harness.sweep.runner import read_words
from reports.runs.selection import name

FAULTS = (
    *("trace=itp195_faults", "cluster=a100x128", "profile=a100_edl_costs", "engine=simulated"),
    *("scheduler=edf_admission", "backend=stop_resume", "tracking=none"),
)
"""A simulation with refusals, failures, owners who give up and slots that go down."""
ROOT = Path(__file__).parents[2]


def simulated(folder, *words):
    """The path of a run that is simulated now."""
    return execute(plan(read_words([*words, f"results_dir={folder}"]), check_workloads=False))


@pytest.fixture(scope="session")
def faulty_path(tmp_path_factory):
    return simulated(tmp_path_factory.mktemp("runs"), *FAULTS)


@pytest.fixture(scope="session")
def faulty(faulty_path):
    (run,) = name([load_run(faulty_path)])
    return run


def shipped(study):
    return name(iter_runs(ROOT / REFERENCE / "amd-epyc-2cpu" / f"{study}.tar.xz"))


@pytest.fixture(scope="session")
def live():
    """A run with stop-free rescales whose clock is four times as slow as the wall clock, and goes
    ahead of it where steps are credited."""
    return next(run for run in shipped("edl_step_time") if run.dilation == 4.0)


@pytest.fixture(scope="session")
def struck():
    """A run in which workers were killed on purpose; its clock is the wall clock."""
    kinds = {"rescale", "resume"}
    runs = (run for run in shipped("easyscale_faults") if run.stored.rows("faults"))
    return next(run for run in runs if kinds <= {change.kind for change in run.changes})


@pytest.fixture(params=["faulty", "live", "struck"])
def run(request):
    return request.getfixturevalue(request.param)

"""The main job shows what its backends differ in: in simulation, and in its records."""

import re
from statistics import fmean, median

import pytest

from harness.cli import main
from harness.configuration.study import load_study
from harness.contracts.change import ChangeKind
from harness.metrics.statistics import percentile_interval
from harness.results.store import iter_runs
from tests.artifact.recorded import REFERENCE

NUM_JOBS = 14
BACKENDS = {"stop_resume", "stop_free", "virtual_thread"}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The simulated points of the study, replayed now, by backend."""
    folder = tmp_path_factory.mktemp("main")
    words = ["study=main", "engine=simulated", f"results_dir={folder}/runs", "progress=false"]
    assert main([*words, "tracking=none"]) == 0
    return {run.manifest["choices"]["backend"]: run for run in iter_runs(folder / "runs")}


def test_the_slice_is_dense_and_its_jobs_have_short_names(simulated):
    for run in simulated.values():
        names = [job.job_id for job in run.rows("jobs")]
        assert len(names) == NUM_JOBS == run.metrics["jobs_finished"]
        assert all(re.fullmatch(r"(vgg16|bert|resnet50|transformer)-[a-d]", name) for name in names)
        assert run.metrics["slot_utilization_mean"] > 0.95
        assert run.metrics["rescales"] >= NUM_JOBS
        assert run.metrics["preemptions"] >= 1


def test_what_rescales_cost_decides_completion_times(simulated):
    """Free rescales are the bound for stop-free; what stop-resume costs was measured."""
    free, dear = (simulated[name].metrics for name in ("stop_free", "stop_resume"))
    assert free["jct_mean_s"] < 0.85 * dear["jct_mean_s"]
    assert free["makespan_s"] < 0.95 * dear["makespan_s"]


def test_the_death_strikes_a_job_that_can_survive_it(simulated):
    """One worker of two dies: stop-resume loses the job's workers, stop-free goes on."""
    found = {name: run.metrics["interruptions"] for name, run in simulated.items()}
    assert found == {"stop_free": 0.0, "stop_resume": 1.0}
    for run in simulated.values():
        assert [outage.slot for outage in run.rows("outages")] == [2]


def test_every_live_point_executes_every_step():
    live = [point for point in load_study("main").points() if point.axes["engine"] == "live"]
    assert {point.axes["backend"] for point in live} == BACKENDS
    assert all(point.axes["engine.fast_forward"] == "false" for point in live)


@pytest.fixture(scope="module")
def recorded():
    """The study's live runs on record, by backend."""
    runs: dict[str, list] = {}
    for folder in REFERENCE.glob("*/main*"):
        for run in iter_runs(folder):
            choices = run.manifest["choices"]
            if (choices["trace"], choices["engine"]) == ("itp195_dense", "live"):
                runs.setdefault(choices["backend"], []).append(run)
    assert set(runs) == BACKENDS
    return runs


def rescales(runs):
    kinds = (ChangeKind.RESCALE, ChangeKind.MIGRATE)
    changes = [change for run in runs for change in run.rows("changes")]
    return [one for one in changes if one.kind in kinds and one.outcome == "done"]


def stops(runs):
    found = [change.stopping_time_s for change in rescales(runs)]
    return [stop for stop in found if stop is not None]


def test_recorded_runs_finish_every_job_and_execute_at_least_a_twentieth(recorded):
    for runs in recorded.values():
        assert len(runs) >= 2
        for run in runs:
            assert run.metrics["jobs_finished"] == NUM_JOBS
            assert run.metrics["executed_share"] >= 0.05
            assert run.metrics["rescales"] >= 10
            assert [outage.slot for outage in run.rows("outages")] == [2]


def test_recorded_stopping_times_differ_by_more_than_their_intervals(recorded):
    short, long = (percentile_interval(stops(recorded[b])) for b in ("stop_free", "stop_resume"))
    assert 10 * short.high < long.low
    virtual = percentile_interval(stops(recorded["virtual_thread"]))
    assert virtual.high < long.low


def test_recorded_rescales_lose_fewer_samples_where_training_goes_on(recorded):
    """Scale-outs gain samples and a preemption may follow a scale-in: single losses spread wide."""
    lost = {
        name: fmean(run.metrics["samples_lost_per_rescale_mean"] for run in runs)
        for name, runs in recorded.items()
    }
    assert lost["stop_free"] < lost["stop_resume"]


def test_recorded_slot_time_lost_to_rescales_is_apart_in_every_trial(recorded):
    """Completion times differ by a few percent only, less than the trials of one backend may."""
    free, dear = (
        [run.metrics["resource_loss_slot_s"] for run in recorded[backend]]
        for backend in ("stop_free", "stop_resume")
    )
    assert max(free) < min(dear)


def test_recorded_jobs_survive_the_death_where_workers_go_on(recorded):
    interrupted = {
        name: median(r.metrics["interruptions"] for r in runs) for name, runs in recorded.items()
    }
    assert interrupted == {"stop_resume": 1.0, "stop_free": 0.0, "virtual_thread": 0.0}


def test_recorded_virtual_workers_have_the_bits_of_fixed_ones(recorded):
    assert all(run.metrics["bitwise_equal"] == 1.0 for run in recorded["virtual_thread"])

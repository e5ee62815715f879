"""Trials on disk, and what the record makes of them."""

import json

import pytest

from harness.beside_torchft.courses import Course, Step
from harness.beside_torchft.record import TrialFiles, make_record
from harness.beside_torchft.trials import Cell, Outcome, Settings, System, Trial, order_of
from harness.contracts.training import WorkloadSpec
from harness.manifest import environment
from harness.store import StoreError

CELL = Cell("toy/toy", WorkloadSpec("toy", "workloads.toy.Toy"), (), (0, 1), {})
LOAD = {"load_1min": 0.5}


def settings(**changes):
    own = {"module": "its", "workloads": ("toy/toy",), "workers": 2, "batch": 8, "cluster": "cpu2"}
    own |= {"start": "cold", "wrapper": "flat", "heartbeat_s": 1.0, "trials": 3, "seed": 0}
    return Settings(**{**own, "torchft": "0.2.0", **changes})


def outcome(stop_s):
    """A training whose first step of two workers stops so long."""
    took = [(0.1, 1)] * 50 + [(0.1 + stop_s, 2)] + [(0.1, 2)] * 30 + [(0.1, 1)] * 25
    steps, now = [], 0.0
    for seconds, workers in took:
        steps.append(Step(now, now + seconds, workers))
        now += seconds
    return Outcome(Course(steps, steps[48].ended_s, steps[80].ended_s), "the newest")


@pytest.fixture
def files(tmp_path):
    return TrialFiles(tmp_path / "trials", settings(), environment(["it"]))


def test_medians_are_of_those_that_came_to_their_end(files):
    found = {}
    for trial, stop_s in zip(order_of([CELL], 3, 0), (0.2, 0.4, 0.9), strict=True):
        other = Outcome(None, "", "it crashed") if trial.number == 1 else outcome(stop_s / 10)
        files.add(trial, {System.TORCHFT: other, System.STOP_FREE: outcome(stop_s)}, LOAD)
        found[trial] = files.find(trial)
    record = make_record(files, [CELL], found)
    (cell,) = json.loads(json.dumps(record))["cells"]
    own, other = cell["medians"]["stop_free"], cell["medians"]["torchft"]
    assert (own["trials"], own["failed"]) == (3, 0)
    assert own["stopping_time_s"] == pytest.approx(0.4)
    assert (other["trials"], other["failed"]) == (2, 1)
    assert other["stopping_time_s"] == pytest.approx(0.055)
    assert cell["trials"][1]["torchft"] == {"error": "it crashed"}
    assert record["settings"]["torchft"] == "0.2.0"


def test_a_trial_of_other_settings_is_another(files, tmp_path):
    trial = Trial(CELL, 0)
    files.add(trial, {system: outcome(0.1) for system in System}, LOAD)
    assert files.find(trial) is not None
    other = TrialFiles(files.folder, settings(torchft="0.3.0"), files.environment)
    assert other.find(trial) is None
    more = TrialFiles(files.folder, settings(trials=9), files.environment)
    assert more.find(trial) is not None


def test_a_damaged_trial_is_named(files):
    trial = Trial(CELL, 0)
    files.add(trial, {system: outcome(0.1) for system in System}, LOAD)
    files.path(trial).write_text("{")
    with pytest.raises(StoreError, match="is damaged; remove it"):
        files.find(trial)

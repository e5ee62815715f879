"""Trials on disk, and what the record makes of them."""

import json

import pytest

from harness.bench.torchft.courses import Course, Step
from harness.bench.torchft.record import TrialFiles, cells_of_record, make_record, record_path
from harness.bench.torchft.trials import (
    Cell,
    Outcome,
    Settings,
    System,
    Trial,
    defaults,
    order_of,
)
from harness.contracts.workload import WorkloadSpec
from harness.machine.manifest import environment
from harness.results.store import StoreError

CELL = Cell("toy/toy", WorkloadSpec("toy", "workloads.toy.Toy"), (), (0, 1), {})
LOAD = {"load_1min": 0.5}


def settings(**changes):
    own = {**defaults(), "workloads": ("toy/toy",), "trials": 3, "torchft": "0.2.0"}
    return Settings(**{**own, **changes})


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


def test_a_record_keeps_what_this_sitting_does_not_better(files, tmp_path):
    found = {}
    for trial in order_of([CELL], 3, 0):
        files.add(trial, {system: outcome(0.2) for system in System}, LOAD)
        found[trial] = files.find(trial)
    path = record_path(tmp_path, files)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(make_record(files, [CELL], found)))
    fewer = {trial: said for trial, said in found.items() if trial.number < 2}
    other = Cell("tiny/bert", WorkloadSpec("bert", "its.Bert"), (), (0, 1), {})
    trial = Trial(other, 0)
    files.add(trial, {system: outcome(0.3) for system in System}, LOAD)
    fewer[trial] = files.find(trial)
    again = make_record(files, [other, CELL], fewer, cells_of_record(path, files))
    assert {c["workload"]: len(c["trials"]) for c in again["cells"]} == {
        "tiny/bert": 1,
        "toy/toy": 3,
    }
    alone = make_record(files, [other], {trial: fewer[trial]}, cells_of_record(path, files))
    assert alone["settings"]["workloads"] == ["tiny/bert", "toy/toy"]
    newer = TrialFiles(files.folder, settings(torchft="0.3.0"), files.environment)
    assert cells_of_record(path, newer) == []
    path.write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        cells_of_record(path, files)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"trials": 9}, "record.json"),
        ({"wrapper": "ddp"}, "record_ddp.json"),
        ({"heartbeat_s": 5.0, "start": "preimported"}, "record_preimported_heartbeat_s_5.json"),
    ],
)
def test_other_settings_have_a_record_of_their_own(files, tmp_path, changes, name):
    other = TrialFiles(files.folder, settings(**changes), files.environment)
    assert record_path(tmp_path, other).name == name

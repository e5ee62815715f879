"""Two sets of results: what is the same, what differs, what cannot be told."""

import json
import math
import shutil

import pytest
from sample_runs import write_run

from harness.compare import compare, main, welch_half_width
from harness.comparison.settings import settings
from harness.results.store import iter_runs


def scale(root, factor, *, of):
    for path in root.rglob("metrics.json"):
        if of in str(path):
            metrics = json.loads(path.read_text())
            metrics["jct_mean_s"] *= factor
            path.write_text(json.dumps(metrics))


@pytest.fixture
def two(tmp_path):
    """The same live trials of two schedulers twice, and a simulated run of each."""
    for folder in ("a", "b"):
        for scheduler in ("fifo", "uniform"):
            write_run(tmp_path / folder, scheduler=scheduler)
            for repetition in range(5):
                write_run(tmp_path / folder, scheduler=scheduler, live=True, repetition=repetition)
    return tmp_path / "a", tmp_path / "b"


def test_the_same_results_differ_in_nothing(two, capsys):
    assert main([str(two[0]), str(two[1])]) == 0
    said = capsys.readouterr().out
    assert " 0 different" in said
    assert "2 simulated runs are in both: 2 the same byte for byte." in said


def test_what_differs_is_named_and_nothing_else(two, capsys):
    scale(two[0], 2.0, of="uniform-stop_resume-live")
    found = compare(*(list(iter_runs(folder)) for folder in two), ["jct_mean_s"], 0.05)
    words = {each.setting: each.word for each in found}
    assert sorted(words.values()).count("different") == 1
    (name,) = (setting for setting, word in words.items() if word == "different")
    assert name == "engine=live scheduler=uniform"
    (changed,) = (each for each in found if each.word == "different")
    assert changed.effect == pytest.approx(2.0)
    assert (changed.num_a, changed.num_b) == (5, 5)
    assert main([str(two[0]), str(two[1])]) == 1
    assert "different" in capsys.readouterr().out


def test_one_trial_tells_nothing(tmp_path):
    for folder, factor in (("a", 1.0), ("b", 3.0)):
        write_run(tmp_path / folder, live=True)
        scale(tmp_path / folder, factor, of="live")
    sets = [list(iter_runs(tmp_path / folder)) for folder in ("a", "b")]
    (found,) = compare(*sets, ["jct_mean_s"], 0.05)
    assert found.word == "not distinguishable"
    assert math.isinf(found.high)


def test_a_replay_with_other_records_is_told(two, capsys):
    (path,) = (path for path in two[0].rglob("digests.json") if "fifo-stop_resume-sim" in str(path))
    digests = json.loads(path.read_text())
    digests["jobs"] = "0" * 64
    path.write_text(json.dumps(digests))
    assert main([str(two[0]), str(two[1])]) == 1
    said = capsys.readouterr().out
    assert "five_jobs-fifo-stop_resume-simulated-s0-r0: not the same jobs" in said


def test_seeds_are_trials_and_options_are_settings(two, tmp_path):
    write_run(tmp_path / "c", scheduler="fifo", seed=3)
    runs = [*iter_runs(two[0]), *iter_runs(tmp_path / "c")]
    sizes = sorted(len(members) for members in settings(runs).values())
    assert sizes == [1, 2, 5, 5]


def test_welch_by_hand():
    # Variances 2/3 and 4, four and five trials: t with 5.52 degrees of freedom is 2.4993.
    a, b = [9.0, 10.0, 10.0, 11.0], [20.0, 18.0, 22.0, 18.0, 22.0]
    half = welch_half_width(a, b, 0.95)
    assert half == pytest.approx(2.4993 * math.sqrt(2 / 3 / 4 + 4 / 5), rel=1e-4)
    assert welch_half_width([1.0], [1.0], 0.95) == 0.0
    assert math.isinf(welch_half_width([1.0], [2.0], 0.95))


def test_mistakes_are_told(two, tmp_path, capsys):
    assert main([str(two[0]), str(tmp_path / "nowhere")]) == 2
    assert "holds no finished run; give a folder of results" in capsys.readouterr().err
    shutil.rmtree(two[1])
    write_run(tmp_path / "b", scheduler="edf")
    assert main([str(two[0]), str(two[1])]) == 2
    assert "have no setting in common" in capsys.readouterr().err

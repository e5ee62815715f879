"""A whole study, tiny but real: the plain script and the live engine train toy."""

import json
import math
from dataclasses import replace
from pathlib import Path
from statistics import median

import psutil
import pytest

from harness.bench.overhead import __main__ as overhead
from harness.bench.overhead.__main__ import main
from harness.bench.overhead.record import TrialStore
from harness.bench.overhead.settings import read_settings
from harness.bench.overhead.trials import Kind, TrialError, plan_cells
from harness.errors import UserError
from harness.machine.manifest import environment
from tests.backends.world import options

STEPS, DROP, TURN_S = 4000, 4, 0.1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("overhead")


@pytest.fixture(scope="module")
def words(folder):
    return [
        *("--workloads", "toy/toy", "--workers", "1", "--trials", "1"),
        *("--steps", str(STEPS), "--drop", str(DROP), "--turn", str(TURN_S)),
        *("--work", str(folder / "work"), "--to", str(folder / "reference")),
    ]


@pytest.fixture(scope="module")
def record(folder, words):
    before = set(psutil.Process().children(recursive=True))
    assert main(words) == 0
    assert set(psutil.Process().children(recursive=True)) <= before
    (path,) = folder.glob("reference/*/bench_overhead/record.json")
    return json.loads(path.read_text())


@pytest.mark.long
def test_the_record_says_what_was_measured_and_where(record):
    assert record["name"] == "bench_overhead"
    for key in ("hardware", "packages", "git_commit", "created", "command", "load_1min"):
        assert record[key]
    (cell,) = record["cells"]
    assert cell["workload"] == "toy/toy"
    assert (cell["num_workers"], cell["steps"], cell["cores"]) == (1, STEPS, [0])
    (trial,) = cell["trials"]
    assert trial["rounds"] >= 1
    assert 0 < trial["median"]["plain_s"] == cell["median"]["plain_s"] < TURN_S
    ratio = cell["median"]["ratio"]
    assert ratio["value"] == pytest.approx(trial["median"]["ratio"])
    assert ratio["low"] is ratio["high"] is None


@pytest.mark.long
def test_every_trial_is_a_file_with_the_periods_of_all_rounds(record, folder):
    (path,) = folder.glob("work/trials/*.json")
    rounds_s = json.loads(path.read_text())["rounds_s"]
    assert len(rounds_s) == record["cells"][0]["trials"][0]["rounds"]
    for kind in Kind:
        assert sum(len(periods[kind]) for periods in rounds_s) < STEPS - DROP
        assert all(0 < sum(periods[kind]) < 2 * TURN_S for periods in rounds_s)
    (trial,) = record["cells"][0]["trials"]
    noise = [math.log(median(of["again"]) / median(of["plain"])) for of in rounds_s]
    assert trial["median"]["noise"] == pytest.approx(math.exp(median(noise)))


@pytest.mark.long
def test_the_backend_went_through_the_ordinary_engine(record, folder):
    run = next(folder.glob("work/runs/*/manifest.json"))
    manifest = json.loads(run.read_text())
    assert manifest["status"] == "finished"
    assert (manifest["choices"]["backend"], manifest["choices"]["engine"]) == ("static", "live")
    facts = json.loads((run.parent / "facts.json").read_text())
    assert (facts["steps_executed"], facts["steps_credited"]) == (STEPS, 0)


@pytest.mark.long
def test_finished_trials_are_not_run_again(record, folder, words, capsys):
    (first,) = folder.glob("work/trials/*.json")
    written = first.stat().st_ctime_ns
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "toy/toy" in captured.out
    assert "done in" not in captured.err
    (again,) = folder.glob("work/trials/*.json")
    assert again.stat().st_ctime_ns == written


@pytest.mark.long
def test_the_trials_of_a_record_count_where_that_is_asked_for(record, words, tmp_path, capsys):
    elsewhere = [*words, "--work", str(tmp_path)]
    assert main([*elsewhere, "--trials", "2", "--dry"]) == 0
    assert "2 trials, 2 to run" in capsys.readouterr().out
    assert main([*elsewhere, "--trials", "2", "--continue", "--dry"]) == 0
    assert "2 trials, 1 to run" in capsys.readouterr().out
    assert main([*elsewhere, "--continue", "--turn", "0.3", "--dry"]) == 0
    assert "1 trials, 1 to run" in capsys.readouterr().out
    assert main([*elsewhere, "--continue"]) == 0
    assert not list(tmp_path.rglob("*.jsonl")), "nothing was trained"
    (path,) = Path(words[words.index("--to") + 1]).glob("*/bench_overhead/record.json")
    again = json.loads(path.read_text())
    assert again["cells"] == record["cells"]
    path.write_text(json.dumps({**again, "schema_version": 3}))
    assert main([*elsewhere, "--continue"]) == 1
    assert "is of version 3, not 4; leave --continue out" in capsys.readouterr().err
    path.write_text(json.dumps(again))


@pytest.mark.long
def test_a_cell_stays_in_a_record_only_under_the_conditions_that_it_had(record):
    (cell,) = record["cells"]
    settings = read_settings(steps=STEPS, steps_of={}, drop=DROP, turn_s=TURN_S, turn_s_of={})
    about = environment([])
    assert TrialStore(Path(), about, settings).counts(cell)
    assert not TrialStore(Path(), about, settings).counts({**cell, "batch": 64})
    assert not TrialStore(Path(), {**about, "python": "3.0"}, settings).counts(cell)
    longer = replace(settings, turn_s_of={"toy/toy": 2 * TURN_S})
    assert not TrialStore(Path(), about, longer).counts(cell)


@pytest.mark.long
def test_a_record_is_written_of_what_was_measured_before_a_failure(
    record, words, tmp_path, monkeypatch, capsys
):
    def fails(trial, settings, folder):
        raise TrialError(f"{trial.name}: its script ended with 1")

    monkeypatch.setattr(overhead, "run_trial", fails)
    assert main([*words, "--trials", "2", "--to", str(tmp_path)]) == 1
    assert "toy-toy-1w-t1: its script ended with 1" in capsys.readouterr().err
    (path,) = tmp_path.glob("*/bench_overhead/record.json")
    assert json.loads(path.read_text())["cells"] == record["cells"]


def test_a_dry_run_starts_nothing(words, tmp_path, capsys):
    words = [*words, "--work", str(tmp_path), "--to", str(tmp_path / "to"), "--dry"]
    assert main(words) == 0
    assert "1 trials, 1 to run" in capsys.readouterr().out
    assert not (tmp_path / "trials").exists()
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("more", "fact"),
    [
        (["--workers", "1,x"], "--workers: is '1,x'"),
        (["--workers", "3"], "cluster's 2 slots"),
        (["--workloads", "toy/nope"], "workload 'nope' of the trace is not in the pool"),
        (["--workloads", "nope/toy"], "unknown option 'nope'"),
        (["--backend", "nope"], "backend: unknown option 'nope'"),
        (["--cluster", "cpu4", "--workers", "4"], "--cluster: cpu4 does not give each slot one"),
        (["--steps", "8"], "--steps: is 8, 4 are dropped; give at least 9"),
        (["--turn", "0"], "--turn: is 0.0; give seconds above 0, at most 60"),
    ],
)
def test_mistakes_are_told_before_anything_starts(words, more, fact, capsys):
    assert main([*words, *more]) == 2
    captured = capsys.readouterr()
    assert fact in captured.err
    assert captured.out == ""


@pytest.mark.long
@pytest.mark.parametrize("backend", options("backend"))
def test_every_backend_can_be_told_to_bear_its_turns(tmp_path, backend):
    settings = read_settings(workloads=["toy/toy"], workers=[1], backend=backend)
    try:
        (cell,) = plan_cells(settings, tmp_path)
    except UserError as error:
        if "needs the package" in str(error):  # an optional one
            pytest.skip(str(error))
        raise
    assert cell.order.job_id


@pytest.mark.soak
def test_a_backend_that_watches_for_hangs_bears_its_turns(folder, words):
    """A worker without a turn is silent for longer than stop_free is patient by default."""
    words = [*words, "--backend", "stop_free", "--turn", "1.2", "--steps", "8000"]
    assert main(words) == 0
    (path,) = folder.glob("reference/*/bench_overhead/record_stop_free.json")
    (cell,) = json.loads(path.read_text())["cells"]
    assert cell["trials"][0]["rounds"] >= 1
    (run,) = folder.glob("work/runs/*stop_free*/facts.json")
    assert json.loads(run.read_text())["steps_executed"] == 8000


@pytest.mark.soak
@pytest.mark.parametrize(
    ("turn_s", "fact"),
    [
        ("0.001", "no round has 5 steps of each; raise --turn, and --steps with it"),
        ("30", "a program ended within the first round; raise --steps or lower --turn"),
    ],
)
def test_turns_that_do_not_suit_the_steps_are_told(words, tmp_path, capsys, turn_s, fact):
    words = [*words, "--work", str(tmp_path), "--steps", "200", "--turn", turn_s]
    assert main(words) == 1
    assert fact in capsys.readouterr().err


@pytest.mark.long
def test_a_script_that_fails_is_told_with_its_last_words(words, tmp_path, capsys):
    words = [*words, "--work", str(tmp_path), "--reference", "tests.backends.nothing_here"]
    assert main(words) == 1
    text = capsys.readouterr().err
    assert "ended with 1; log: " in text
    assert "No module named tests.backends.nothing_here" in text

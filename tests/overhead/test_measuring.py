"""A whole study, tiny but real: the plain script and the live engine train toy."""

import json
import time

import psutil
import pytest

from harness.overhead.__main__ import main
from harness.overhead.blocks import Kind

STEPS, DROP = 24, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("overhead")


@pytest.fixture(scope="module")
def words(folder):
    return [
        *("--workloads", "toy/toy", "--workers", "1", "--trials", "1"),
        *("--steps", str(STEPS), "--drop", str(DROP)),
        *("--work", str(folder / "work"), "--to", str(folder / "reference")),
    ]


@pytest.fixture(scope="module")
def record(folder, words):
    before = set(psutil.Process().children(recursive=True))
    began = time.monotonic()
    assert main(words) == 0
    wall_s = time.monotonic() - began
    assert set(psutil.Process().children(recursive=True)) <= before
    (path,) = folder.glob("reference/*/bench_overhead/record.json")
    return {**json.loads(path.read_text()), "wall_s": wall_s}


def test_the_record_says_what_was_measured_and_where(record):
    assert record["name"] == "bench_overhead"
    for key in ("hardware", "packages", "git_commit", "created", "command", "load_1min"):
        assert record[key]
    (cell,) = record["cells"]
    assert cell["workload"] == "toy/toy"
    assert (cell["num_workers"], cell["steps"], cell["cores"]) == (1, STEPS, [0])
    (trial,) = cell["trials"]
    assert sorted(trial["order"]) == sorted(Kind)
    for kind in Kind:
        assert 0 < trial["median_s"][kind] < record["wall_s"] / (STEPS - DROP)
    plain = (trial["median_s"]["plain"] * trial["median_s"]["again"]) ** 0.5
    ratio = cell["median"]["ratio"]
    assert ratio["value"] == pytest.approx(trial["median_s"]["backend"] / plain)
    assert ratio["low"] is ratio["high"] is None


def test_every_block_is_a_file_with_all_its_periods(record, folder):
    blocks = [json.loads(path.read_text()) for path in folder.glob("work/blocks/*.json")]
    assert sorted(block["kind"] for block in blocks) == sorted(Kind)
    for block in blocks:
        assert len(block["periods_s"]) == STEPS - 1
        assert min(block["periods_s"]) > 0
        counted = sorted(block["periods_s"][DROP:])
        middle = (counted[len(counted) // 2] + counted[~(len(counted) // 2)]) / 2
        assert record["cells"][0]["trials"][0]["median_s"][block["kind"]] == pytest.approx(middle)


def test_the_backend_went_through_the_ordinary_engine(record, folder):
    (run,) = folder.glob("work/runs/*/manifest.json")
    manifest = json.loads(run.read_text())
    assert manifest["status"] == "finished"
    assert (manifest["choices"]["backend"], manifest["choices"]["engine"]) == ("static", "live")
    facts = json.loads((run.parent / "facts.json").read_text())
    assert (facts["steps_executed"], facts["steps_credited"]) == (STEPS, 0)


@pytest.mark.long
def test_finished_blocks_are_not_run_again(record, folder, words, capsys):
    paths = {path: path.stat().st_ctime_ns for path in folder.glob("work/blocks/*.json")}
    (lost, *_) = sorted(path for path in paths if "-plain-" in path.name)
    lost.unlink()
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "toy/toy" in captured.out
    assert captured.err.count("done in") == 1
    after = {path: path.stat().st_ctime_ns for path in folder.glob("work/blocks/*.json")}
    assert after.keys() == paths.keys()
    assert {path for path in paths if after[path] != paths[path]} == {lost}


def test_a_dry_run_starts_nothing(words, tmp_path, capsys):
    words = [*words, "--work", str(tmp_path), "--to", str(tmp_path / "to"), "--dry"]
    assert main(words) == 0
    assert "3 blocks, 3 to run" in capsys.readouterr().out
    assert not (tmp_path / "blocks").exists()
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
    ],
)
def test_mistakes_are_told_before_anything_starts(words, more, fact, capsys):
    assert main([*words, *more]) == 2
    captured = capsys.readouterr()
    assert fact in captured.err
    assert captured.out == ""


@pytest.mark.long
def test_a_script_that_fails_is_told_with_its_last_words(words, tmp_path, capsys):
    words = [*words, "--work", str(tmp_path), "--reference", "tests.backends.nothing_here"]
    assert main(words) == 1
    text = capsys.readouterr().err
    assert "ended with 1; log: " in text
    assert "No module named tests.backends.nothing_here" in text

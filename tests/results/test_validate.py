"""Sound results pass; every kind of damage is named."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from sample_runs import simulate, write_run

from harness.results.records import GrantRecord, OutageRecord, RunRecords
from harness.results.store import RunStore
from harness.validate import check_records, main


def test_sound_runs_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, live=True)
    write_run(tmp_path / "deeper", scheduler="uniform")
    assert main([str(tmp_path)]) == 0
    assert "2 runs checked, 0 problems" in capsys.readouterr().out


def test_in_brief_copies_are_only_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_run(tmp_path).path
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["left_out"] = {"decisions": 1000}
    (path / "manifest.json").write_text(json.dumps(manifest))
    (path / "decisions.csv.gz").unlink()
    assert main([str(tmp_path)]) == 0
    assert "copied without decisions" in capsys.readouterr().out
    assert main([str(tmp_path), "--brief"]) == 0
    assert capsys.readouterr().out == "1 run checked, 1 copied without some tables, 0 problems\n"


def test_no_run_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no finished run" in capsys.readouterr().err


def test_a_run_that_failed_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "deeper")
    writer = RunStore(tmp_path / "deeper").create("x", {}, "{}")
    with suppress(RuntimeError), writer:
        (writer.path / "worker.log").touch()
        raise RuntimeError("the disk is full")
    assert main([str(tmp_path)]) == 2
    assert "deeper: run x failed: the disk is full; run the point" in capsys.readouterr().err


def test_jobs_that_the_machine_failed_are_no_result() -> None:
    records = simulate()
    reasons = [
        "worker 0: the pre-importing process has died: exit code -9; no output; logs: jobs/a",
        "worker 1: OSError: [Errno 28] No space left on device: 'steps.jsonl'; logs: jobs/b",
        "worker 0: ValueError: No such sample; logs: jobs/c",
    ]
    failed = [replace(records.jobs[0], state="failed", job_id=r[-1], reason=r) for r in reasons]
    found = [
        text
        for text in check_records(RunRecords(jobs=failed))
        if "failed because of the machine, which is no result" in text
    ]
    assert [text.split()[1] for text in found] == ["a", "b"]


def test_all_problems_are_shown_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_run(tmp_path).path
    found = json.loads((path / "metrics.json").read_text())
    del found["makespan_s"]
    (path / "metrics.json").write_text(json.dumps(found | {"jct_mean_s": 1.0, "made_up": 2}))
    jobs = gzip.decompress((path / "jobs.csv.gz").read_bytes())
    (path / "jobs.csv.gz").write_bytes(gzip.compress(jobs.replace(b"owner,", b"other,", 1)[:-1]))
    (path / "decisions.csv.gz").unlink()
    assert main([str(tmp_path)]) == 2
    text = capsys.readouterr().err
    assert "decisions.csv.gz is missing" in text
    path.joinpath("jobs.csv.gz").write_bytes(gzip.compress(jobs + jobs.split(b"\r\n")[1] + b"\r\n"))
    assert main([str(tmp_path)]) == 2
    text = capsys.readouterr().err
    assert "jobs.csv.gz was changed after it was written" in text
    assert "is listed twice" in text
    assert "metrics.json lacks makespan_s" in text
    assert "the records do not give made_up" in text
    assert "metrics.json says jct_mean_s = 1.0" in text


def test_a_run_need_not_have_metrics_that_came_after_it(tmp_path: Path) -> None:
    path = write_run(tmp_path).path
    metrics, manifest = path / "metrics.json", path / "manifest.json"
    found = json.loads(metrics.read_text())
    del found["jobs_finished_by_last_arrival"]
    metrics.write_text(json.dumps(found))
    said = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(said | {"metrics_version": 1}))
    assert main([str(tmp_path)]) == 2
    for key in ("metrics_version", "sha256"):
        said.pop(key, None)
    manifest.write_text(json.dumps(said))
    assert main([str(tmp_path)]) == 0


@pytest.mark.parametrize("name", ["metrics.json", "facts.json"])
def test_numbers_that_no_record_can_tell_are_sealed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = write_run(tmp_path).path / name
    found = json.loads(path.read_text())
    path.write_text(json.dumps({key: value + 1 for key, value in found.items()}))
    assert main([str(tmp_path)]) == 2
    assert f"{name} was changed after it was written" in capsys.readouterr().err


def problems(**lists: object) -> str:
    return "\n".join(check_records(replace(simulate(), **lists)))  # type: ignore[arg-type]


def test_records_that_contradict_themselves() -> None:
    sample = simulate()
    assert problems() == ""
    first = sample.jobs[0]
    assert "unknown state 'dreaming'" in problems(jobs=[replace(first, state="dreaming")])
    assert "out of order" in problems(jobs=[replace(first, finish_s=first.arrival_s - 1)])
    assert "no finish time" in problems(jobs=[replace(first, finish_s=None)])
    assert "grants: job job01 is not in jobs" in problems(
        jobs=[job for job in sample.jobs if job.job_id != "job01"]
    )
    ended = replace(sample.changes[0], ended_s=-1.0)
    assert "ended before it was requested" in problems(changes=[ended])


def test_a_slot_held_twice_is_found() -> None:
    grants = [
        GrantRecord("job00", 0, 10, (0, 1), 8, None),
        GrantRecord("job01", 9, 12, (1,), 8, None),
    ]
    assert "slot 1 is held by job00 until 10 s and by job01 from 9 s" in problems(grants=grants)
    assert "slot 1 is held" not in problems(grants=[grants[0], replace(grants[1], start_s=10)])
    assert "slot 7 of 4" in problems(grants=[GrantRecord("job00", 0, 1, (7,), 8, None)])
    assert list(check_records(RunRecords())) == []


def test_outages_that_cannot_be_are_found() -> None:
    assert problems(outages=[OutageRecord(3, 900, 950), OutageRecord(3, 950, 950)]) == ""
    assert "outages: slot 7 of 4" in problems(outages=[OutageRecord(7, 0, 1)])
    assert "outages: slot 1 is down from 5 to 4 s" in problems(outages=[OutageRecord(1, 5, 4)])
    twice = [OutageRecord(1, 900, 960), OutageRecord(1, 950, 970)]
    assert "outages: slot 1 goes down at 950 s, but is down until 960 s" in problems(outages=twice)
    grants = [GrantRecord("job00", 0, 10, (0, 1), 8, None)]
    for start_s, end_s, is_wrong in ((10, 20, False), (5, 7, True), (0, 1, True)):
        text = problems(grants=grants, outages=[OutageRecord(1, start_s, end_s)])
        assert ("job00 holds slot 1, which is down" in text) == is_wrong

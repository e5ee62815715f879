"""Runs come back as they were written; half-written ones never look finished."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_runs import simulate, write_run

from harness.results.records import (
    ChangeRecord,
    DecisionRecord,
    EvaluationRecord,
    GrantRecord,
    JobRecord,
    OutageRecord,
    RunRecords,
    StepRecord,
    SystemRecord,
)
from harness.results.store import RunStore, RunWriter, StoreError, failed_runs, iter_runs, load_run
from harness.results.tables import TABLES, TableError, columns
from tests.examples import examples
from tests.patience import outcome

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
numbers = st.floats(allow_nan=False)
perhaps = st.none() | numbers
counts = st.integers(0, 2**53)
slots = st.lists(st.integers(0, 400), max_size=5).map(tuple)
phases = st.dictionaries(texts, numbers, max_size=3)


def some(kind, *fields):
    return st.lists(st.builds(kind, *fields), max_size=4)


records_strategy = st.builds(
    RunRecords,
    jobs=some(
        JobRecord, texts, texts, texts, numbers, counts, counts, numbers, perhaps, texts, texts,
        perhaps, perhaps, numbers, numbers, numbers, counts, counts, perhaps, perhaps, texts,
        perhaps,
    ),
    grants=some(GrantRecord, texts, numbers, numbers, slots, counts, perhaps),
    changes=some(
        ChangeRecord, counts, texts, texts, numbers, perhaps, texts, slots, slots, perhaps,
        perhaps, phases,
    ),
    decisions=some(DecisionRecord, numbers, counts, counts),
    outages=some(OutageRecord, counts, numbers, numbers),
    steps=some(StepRecord, texts, counts, counts, counts, numbers, numbers, texts),
    evaluations=some(EvaluationRecord, texts, counts, texts, texts),
    system=some(SystemRecord, numbers, numbers, counts, counts),
    latencies_us=st.lists(counts, max_size=4),
    facts=st.dictionaries(texts, numbers, max_size=3),
)  # fmt: skip


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(records=records_strategy)
def test_any_records_come_back_exactly(tmp_path: Path, records: RunRecords) -> None:
    with RunStore(tmp_path).create("run", {}, "{}") as writer:
        stored = writer.finish(records, {"jct_mean_s": 0.1})
    assert stored.records == records
    for name in TABLES:
        frame = stored.table(name)
        rows = records.latencies_us if name == "latencies" else getattr(records, name)
        assert list(frame.columns) == list(columns(name))
        assert len(frame) == len(rows)


def test_frames_hold_the_same_values_as_the_records(tmp_path: Path) -> None:
    stored = write_run(tmp_path, live=True, scheduler="uniform")
    changes = stored.table("changes")
    assert [tuple(slots) for slots in changes["to_slots"]] == [
        change.to_slots for change in stored.records.changes
    ]
    assert changes["phases_s"][0] == stored.records.changes[0].phases_s
    assert list(stored.table("jobs")["finish_s"]) == [j.finish_s for j in stored.records.jobs]


def test_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", live=True)
    second = write_run(tmp_path / "b", live=True)
    for one, other in zip(first.files(), second.files(), strict=True):
        if one.name != "manifest.json":
            assert one.read_bytes() == other.read_bytes(), one.name
    manifests = [
        {key: value for key, value in run.manifest.items() if key != "records_write_s"}
        for run in (first, second)
    ]
    assert manifests[0] == manifests[1], "only the time that writing took may differ"


def test_empty_tables_have_no_file(tmp_path: Path) -> None:
    stored = write_run(tmp_path)
    assert not (stored.path / "steps.csv.gz").exists()
    assert stored.records.steps == []
    assert stored.table("steps").empty


def test_find_and_iterate_see_finished_runs_only(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "study")
    assert store.find("x") is None
    with store.create("x", {}, "{}") as writer:
        assert store.find("x") is None
        assert list(iter_runs(tmp_path)) == []
        writer.finish(RunRecords(), {})
    assert store.find("x") is not None
    assert [run.run_id for run in iter_runs(tmp_path)] == ["x"]


def test_copies_of_runs_in_a_mirror_are_passed_over(tmp_path: Path) -> None:
    write_run(tmp_path / "runs")
    copy = write_run(tmp_path / "mlflow" / "artifacts")
    assert len(list(iter_runs(tmp_path))) == 2
    (tmp_path / "mlflow" / "mlflow.db").touch()
    assert [run.path for run in iter_runs(tmp_path)] == [tmp_path / "runs" / copy.run_id]


def test_a_second_finish_replaces_the_first(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    for value in (1.0, 2.0):
        with store.create("x", {}, "{}") as writer:
            writer.finish(RunRecords(), {"jct_mean_s": value})
    assert [run.metrics for run in iter_runs(tmp_path)] == [{"jct_mean_s": 2.0}]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def _leave(writer: RunWriter, error: BaseException) -> None:
    with writer:
        (writer.path / "worker.log").write_text("Traceback")
        raise error


def test_leaving_unfinished_keeps_logs_after_an_error_and_nothing_after_ctrl_c(
    tmp_path: Path,
) -> None:
    store = RunStore(tmp_path)
    with pytest.raises(ValueError, match="broken") as caught:
        _leave(store.create("x", {}, "{}"), ValueError("broken"))
    kept = tmp_path / ".failed-x"
    assert (kept / "worker.log").read_text() == "Traceback"
    assert str(kept) in caught.value.__notes__[0]
    assert list(failed_runs(tmp_path)) == [("x", "broken")]
    with pytest.raises(KeyboardInterrupt):
        _leave(store.create("y", {}, "{}"), KeyboardInterrupt())
    assert [path.name for path in tmp_path.iterdir()] == [".failed-x"]
    assert list(iter_runs(tmp_path)) == []
    with store.create("x", {}, "{}") as writer:
        writer.finish(RunRecords(), {})
    assert list(failed_runs(tmp_path)) == []


def test_another_schema_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    stored = write_run(tmp_path)
    manifest = json.loads((stored.path / "manifest.json").read_text())
    (stored.path / "manifest.json").write_text(json.dumps(manifest | {"schema_version": 99}))
    with pytest.raises(StoreError, match=r"schema version 99.* reads 1; run the point again"):
        load_run(stored.path)


def test_a_directory_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"manifest\.json does not exist"):
        load_run(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "garbage", "columns"])
def test_a_damaged_table_is_named(tmp_path: Path, damage: str) -> None:
    stored = write_run(tmp_path)
    path = stored.path / "grants.csv.gz"
    whole = path.read_bytes()
    broken = {
        "cut": whole[: len(whole) // 2],
        "garbage": b"not gzip",
        "columns": gzip.compress(b"job_id,something\r\n1,2\r\n"),
    }
    path.write_bytes(broken[damage])
    with pytest.raises(TableError, match=r"grants\.csv\.gz"):
        _ = load_run(stored.path).records
    with pytest.raises(TableError, match=r"grants\.csv\.gz"):
        stored.table("grants")


def test_an_earlier_version_may_lack_last_columns_that_may_be_missing(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    path = run.path / "jobs.csv.gz"
    whole = run.rows("jobs")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    less = [line.rpartition(",")[0] for line in lines]
    path.write_bytes(gzip.compress(("\r\n".join(less) + "\r\n").encode()))
    assert load_run(run.path).rows("jobs") == [replace(row, least_slot_s=None) for row in whole]
    assert load_run(run.path).table("jobs")["least_slot_s"].isna().all()
    needed = [line.partition(",")[0] for line in lines]
    path.write_bytes(gzip.compress(("\r\n".join(needed) + "\r\n").encode()))
    with pytest.raises(TableError, match="columns are job_id; this version reads job_id, workload"):
        load_run(run.path).rows("jobs")


@pytest.mark.parametrize("run_id", ["", ".hidden", "a/b"])
def test_an_id_that_names_no_directory_is_refused(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(StoreError, match="cannot name a run"):
        RunStore(tmp_path).create(run_id, {}, "{}")


def run_python(code: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


KILLED = """
import signal, sys
from pathlib import Path
import harness.results.store as store
from harness.results.records import DecisionRecord, RunRecords

real = store.write_table
def slow(path, name, rows):
    digest = real(path, name, rows)
    print("written", name, flush=True)
    signal.pause()
    return digest
store.write_table = slow
with store.RunStore(Path(sys.argv[1])).create("x", {}, "{}") as writer:
    writer.finish(RunRecords(decisions=[DecisionRecord(0.0, 1, 1)], latencies_us=[1]), {})
"""


def test_killed_while_writing_leaves_no_finished_run_and_is_cleared(tmp_path: Path) -> None:
    process = run_python(KILLED, str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "written decisions"
    store = RunStore(tmp_path)
    assert store.clear_leftovers() == [], "its owner still lives"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert list(iter_runs(tmp_path)) == []
    assert store.find("x") is None
    (left,) = tmp_path.iterdir()
    assert (left / "decisions.csv.gz").exists()
    with store.create("x", {}, "{}") as writer:
        assert not left.exists(), "the next writer clears what the dead one left"
        writer.finish(simulate(), {})
    assert [run.run_id for run in iter_runs(tmp_path)] == ["x"]


FULL = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, "tests/results")
from sample_runs import simulate
from harness.results.store import RunStore, StoreError

records = simulate(num_jobs=60)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with RunStore(Path(sys.argv[1])).create("x", {}, "{}") as writer:
        writer.finish(records, {})
except StoreError as error:
    print(error)
"""


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    out, err = outcome(run_python(FULL, str(tmp_path)))
    assert "nothing was kept; free some space" in out, err
    assert list(tmp_path.iterdir()) == []

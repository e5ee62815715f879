"""What a report says of jobs that kept their size, on steps and samples worked out by hand."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
import yaml
from sample_runs import write_run

from harness.metrics import compute as metrics
from harness.results.records import GrantRecord, JobRecord, RunRecords, StepRecord, SystemRecord
from harness.results.store import RunStore, StoredRun
from reports.claims.measures import measured
from reports.drawing import style
from reports.figures import FIGURES
from reports.figures.normalized_run_time import ratios
from reports.measures.step_speed import speeds, workers_memory_bytes
from reports.runs.selection import ReportRun, name

MB = 1_000_000


def write_alone(
    root: Path, backend: str, workers: int, slots: int, step_s: float, memory_mb: int
) -> StoredRun:
    """Six slow steps and then ten of this length, eight samples a worker in each."""
    like = write_run(root / "like", live=True, backend=backend)
    lengths_s = [3.0] * 5 + [step_s] * 10
    starts_s = [sum(lengths_s[:number]) for number in range(15)]
    batch = 8 * workers
    records = RunRecords(
        steps=[
            StepRecord("0", number + 1, slots, batch, at_s, length_s, "0x0p+0")
            for number, (at_s, length_s) in enumerate(zip(starts_s, lengths_s, strict=True))
        ],
        system=[
            SystemRecord(0.0, 50.0, 100 * MB, 2),
            *(SystemRecord(at_s, 50.0, (at_s + 90 + memory_mb) * MB, 3) for at_s in (5, 10)),
            SystemRecord(15.0, 50.0, 90 * MB, 2),  # when its workers have gone
        ],
        grants=[GrantRecord("0", 0.0, 50.0, tuple(range(slots)), batch, None)],
    )
    samples = 15.0 * batch
    records.jobs.append(
        JobRecord("0", "toy", "", 0.0, workers, batch, samples, None, "none", "finished", 0.0, 50.0,
                  samples, 50.0, 50.0, 0, 0, None, None)
    )  # fmt: skip
    records.facts |= {"steps_executed": 15.0, "steps_credited": 0.0, "num_slots": 8.0}
    run_id = f"run-{backend}-{workers}-{slots}"
    text = yaml.safe_dump(dict(like.config))
    with RunStore(root / "runs").create(run_id, dict(like.manifest), text) as writer:
        return writer.finish(records, metrics.compute(records))


@pytest.fixture
def runs(tmp_path: Path) -> list[ReportRun]:
    return name(
        [
            write_alone(tmp_path, "static", 1, 1, 0.5, 200),
            write_alone(tmp_path, "static", 2, 2, 0.5, 400),
            write_alone(tmp_path, "virtual_thread", 1, 1, 0.5, 200),
            write_alone(tmp_path, "virtual_thread", 2, 1, 1.1, 210),
        ]
    )


def test_speed_and_memory_leave_the_beginning_out(runs: list[ReportRun]) -> None:
    found = {(one.backend, one.logical_workers): one for one in speeds(runs)}
    packed, turns = found["static", 2], found["virtual_thread", 2]
    assert packed.samples_per_s == pytest.approx(16 / 0.5)
    assert packed.per_slot == pytest.approx(8 / 0.5)
    assert (packed.memory_bytes, turns.memory_bytes) == (400 * MB, 210 * MB)
    assert turns.per_slot == turns.samples_per_s == pytest.approx(16 / 1.1)
    assert (turns.name, packed.name) == ("virtual-thread, in turns", "static")
    by_id = {run.run_id: run for run in runs}
    assert measured("settled_samples_per_s", by_id[packed.run_id]) == pytest.approx(32.0)
    assert measured("workers_memory_peak_bytes", by_id[packed.run_id]) == 400 * MB


def test_memory_that_was_not_sampled_in_time_is_not_known(runs: list[ReportRun]) -> None:
    (run, *_) = runs
    first, *_, last = run.stored.rows("system")
    for samples in ([first, last], [first], []):
        run.stored.__dict__["rows"] = {"system": samples}.__getitem__
        assert workers_memory_bytes(run) is None


def test_run_time_is_that_of_a_worker_over_stock_ddps(runs: list[ReportRun]) -> None:
    two = [run for run in runs if run.jobs[0].requested_slots == 2]
    assert ratios(speeds(two)) == {("toy", "virtual-thread, in turns"): [pytest.approx(1.1)]}
    with mpl.rc_context(style.RC):
        (drawing,) = FIGURES["normalized_run_time"].draw(two)
    assert drawing.table is not None, drawing.missing
    assert drawing.table.rows == [["toy: virtual-thread, in turns", "1", "1.100", "1.100 to 1.100"]]
    (missing,) = FIGURES["normalized_run_time"].draw(two[:1])
    assert "under static and another backend" in missing.missing


def test_several_workers_on_one_device_beside_one(runs: list[ReportRun]) -> None:
    with mpl.rc_context(style.RC):
        (drawing,) = FIGURES["packing"].draw(runs)
    assert drawing.table is not None, drawing.missing
    found = {row[0]: row[2:4] for row in drawing.table.rows}
    assert found == {
        "toy: packed, one process each, 1": ["0.20", "1.000"],
        "toy: packed, one process each, 2": ["0.40", "2.000"],
        "toy: virtual threads, in turns, 1": ["0.20", "1.000"],
        "toy: virtual threads, in turns, 2": ["0.21", "0.909"],
    }
    (missing,) = FIGURES["packing"].draw(runs[:2])
    assert "by several workers" in missing.missing

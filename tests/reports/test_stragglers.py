"""What a report says of workers that became slow, on steps and records worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import pytest
import yaml
from sample_runs import write_run

from harness.metrics import compute as metrics
from harness.results.records import JobRecord, RunRecords, SlowingRecord, StepRecord
from harness.results.store import RunStore, StoredRun
from reports.drawing import style
from reports.figures import FIGURES
from reports.measures.stragglers import cases, curve, throughput, watched
from reports.runs.selection import ReportRun, name

BATCH = 24
USUAL_S, SLOW_S, AFTER_S = 0.1, 0.2, 0.12


def steps_of(rule: str) -> list[StepRecord]:
    """20 s of usual steps, then slow ones; with the rule, 3 s of them and then three workers'."""
    stretches = [(20.0, USUAL_S, 4), (3.0, SLOW_S, 4), (12.0, AFTER_S, 3)]
    if rule == "off":
        stretches = [(20.0, USUAL_S, 4), (15.0, SLOW_S, 4)]
    steps, at_s = [], 0.0
    for length_s, step_s, workers in stretches:
        for _ in range(round(length_s / step_s)):
            steps.append(StepRecord("0", len(steps), workers, BATCH, at_s, step_s, "0x0p+0"))
            at_s += step_s
    return steps


def write_slowed(root: Path, rule: str, slowings: list[SlowingRecord]) -> StoredRun:
    like = write_run(root / "like", live=True, backend="stop_free")
    steps = steps_of(rule)
    records = RunRecords(steps=steps, slowings=slowings)
    samples = float(BATCH * len(steps))
    records.jobs.append(
        JobRecord("0", "toy", "", 0.0, 4, BATCH, samples, None, "none", "finished", 0.0, 35.0,
                  samples, 35.0, 35.0, 0, 0, None, None)
    )  # fmt: skip
    records.facts |= {"steps_executed": float(len(steps)), "num_slots": 8.0}
    config = json.loads(json.dumps(like.config))
    config["backend"] = {"_target_": "X", "straggler": rule}
    run_id = f"run-{rule}-{len(slowings)}"
    with RunStore(root / "runs").create(run_id, dict(like.manifest), yaml.safe_dump(config)) as w:
        return w.finish(records, metrics.compute(records))


@pytest.fixture
def runs(tmp_path: Path) -> list[ReportRun]:
    kept = SlowingRecord(20.0, 35.0, "0.w2", 0.5, 0.49, 4, None, None)
    gone = SlowingRecord(20.0, 23.4, "0.w2", 0.5, 0.51, 4, 2.7, 3.0)
    mistake = SlowingRecord(5.0, 5.4, "0.w3", 1.0, 0.0, 4, 0.0, 0.3)
    return name(
        [
            write_slowed(tmp_path, "off", [kept]),
            write_slowed(tmp_path, "remove", [gone]),
            write_slowed(tmp_path, "remove", [mistake, gone]),
            write_slowed(tmp_path, "remove", []),
        ]
    )


def test_throughput_before_during_and_after(runs: list[ReportRun]) -> None:
    off, removed, again = cases(runs)
    assert (off.rule, removed.rule) == ("off", "remove")
    for case in (off, removed, again):
        assert (case.num_workers, case.num_slow, case.speed) == (4, 1, 0.5)
        assert case.usual == pytest.approx(BATCH / USUAL_S)
        assert case.slow == pytest.approx(BATCH / SLOW_S)
    assert (off.after, off.detected_s, off.num_removed) == (None, None, 0)
    assert removed.after == pytest.approx(BATCH / AFTER_S)
    assert (removed.detected_s, removed.switched_s) == pytest.approx((2.7, 3.0))


def test_mistakes_are_counted_over_the_time_in_which_nobody_was_slow(
    runs: list[ReportRun],
) -> None:
    removed, again, quiet = watched(runs)
    assert removed.quiet_s == again.quiet_s == pytest.approx(35.0 - 3.4)
    assert quiet.quiet_s == pytest.approx(35.0)
    assert [one.num_mistaken for one in (removed, again, quiet)] == [0, 1, 0]


def test_the_figure_has_a_row_for_each_rule_and_one_for_the_quiet(runs: list[ReportRun]) -> None:
    with mpl.rc_context(style.RC):
        (drawing,) = FIGURES["straggler"].draw(runs)
    assert drawing.figure is not None, drawing.missing
    assert drawing.table is not None
    rows = [dict(zip(drawing.table.header, row, strict=True)) for row in drawing.table.rows]
    assert [row["removed"] for row in rows] == ["0 of 1", "2 of 2", "1 by mistake"]
    assert [row["slow %"] for row in rows] == ["50.0", "50.0", ""]
    assert [row["after %"] for row in rows] == ["", "83.3", ""]
    assert rows[1]["detected s"] == "2.70"
    assert rows[2]["workers: rule"].startswith("no slow workers, 98 s in all")


def test_without_slow_workers_the_figure_says_so(runs: list[ReportRun]) -> None:
    (drawing,) = FIGURES["straggler"].draw(runs[-1:])
    assert "engine.faults.speed" in drawing.missing


def test_a_curve_tells_pauses_and_needs_no_whole_seconds() -> None:
    steps = [StepRecord("0", k, 1, 10, at, 0.5, "0x0p+0") for k, at in enumerate((0, 0.5, 2.5, 3))]
    assert curve(steps, 0.0) == [(1.5, 20.0), (3.5, pytest.approx(20 / 2.5))]
    assert throughput(steps, 0.0, 1.0) == 20.0
    assert throughput(steps, 0.0, 0.9) is None

"""Losses beside those of fixed workers, on records worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import pytest
import yaml
from sample_runs import write_run

from harness.metrics import compute as metrics
from harness.results.records import FixedLossRecord, JobRecord, RunRecords
from harness.results.store import RunStore, StoredRun
from reports.drawing import style
from reports.figures import FIGURES
from reports.figures.loss_difference import curves
from reports.runs.selection import ReportRun, name

SLOTS = [4] * 5 + [2] * 5 + [3] * 5
BIT = 2.0**-24


def write_held(root: Path, level: str, parts_at: int | None) -> StoredRun:
    """A job whose loss, about 1, parts from that of fixed workers after so many steps."""
    like = write_run(root / "like", live=True, backend="stop_free")
    rows = []
    for step, slots in enumerate(SLOTS, 1):
        away = 0.0 if parts_at is None or step <= parts_at else BIT * 2 ** (step - parts_at - 1)
        rows.append(FixedLossRecord("0", step, slots, (1.0 + away).hex(), (1.0).hex()))
    records = RunRecords(fixed_losses=rows)
    records.jobs.append(
        JobRecord("0", "resnet50", "", 0.0, 4, 16, 240.0, None, "none", "finished", 0.0, 35.0,
                  240.0, 35.0, 35.0, 0, 0, None, None)
    )  # fmt: skip
    records.facts |= {"steps_executed": float(len(rows)), "num_slots": 6.0}
    config = json.loads(json.dumps(like.config))
    config["backend"] = {"_target_": "X", "level": level}
    with RunStore(root / "runs").create(
        f"run-{level}", dict(like.manifest), yaml.safe_dump(config)
    ) as writer:
        return writer.finish(records, metrics.compute(records))


@pytest.fixture
def runs(tmp_path: Path) -> list[ReportRun]:
    parts = {"D0": 5, "D1": 10, "D0+D2": 6, "D2": None}
    return name([write_held(tmp_path, level, at) for level, at in parts.items()])


def test_differences_by_step_and_the_stages_of_a_job(runs: list[ReportRun]) -> None:
    found = {curve.level: curve for curve in curves(runs)}
    assert sorted(found) == ["D0", "D0+D2", "D1", "D1+D2"], "D2 is short for D1+D2"
    assert found["D1"].stages == [(4, range(5)), (2, range(5, 10)), (3, range(10, 15))]
    assert found["D1"].differences[9:12] == (0.0, BIT, 2 * BIT)
    assert not any(found["D1+D2"].differences)


def test_the_figure_and_its_table(runs: list[ReportRun], tmp_path: Path) -> None:
    with mpl.rc_context(style.RC):
        (drawing,) = FIGURES["loss_difference"].draw(runs)
        assert drawing.figure is not None
        drawing.figure.savefig(tmp_path / "loss.png")
    assert drawing.table is not None
    rows = {row[0]: list(row[1:]) for row in drawing.table.rows}
    assert rows["resnet50: D0"][:4] == ["15", "6", "0", f"{16 * BIT:.1e}"]
    assert rows["resnet50: D1"][1:4] == ["11", "0", "0"]
    assert rows["resnet50: D1+D2"][1:] == ["none", "0", "0", "0"]


def test_without_such_jobs_the_page_says_why(tmp_path: Path) -> None:
    (drawing,) = FIGURES["loss_difference"].draw(name([write_run(tmp_path, live=True)]))
    assert "engine.check_reference=true" in drawing.missing

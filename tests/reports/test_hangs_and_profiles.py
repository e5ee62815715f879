"""Figures of hangs and of profiles, on runs whose records are written by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib as mpl
import pytest
import yaml
from sample_runs import write_run

from harness.metrics import compute as metrics
from harness.results.records import (
    AccusationRecord,
    ChangeRecord,
    FaultRecord,
    GrantRecord,
    JobRecord,
    RunRecords,
    StepRecord,
)
from harness.results.store import RunStore, StoredRun
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures import FIGURES
from reports.measures.hangs import HangCell, watched
from reports.measures.profiling import Profile, profiles
from reports.runs.selection import ReportRun, name

BATCH, STEP_S = 8, 0.1


def write(root: Path, run_id: str, records: RunRecords, **backend: object) -> StoredRun:
    """A live run of one job of these records."""
    like = write_run(root / "like" / run_id, live=True, backend="stop_free")
    end_s = max(grant.end_s for grant in records.grants)
    records.jobs.append(
        JobRecord("0", "toy", "", 0.0, 2, BATCH, 1e4, None, "none", "finished", 0.0, end_s,
                  1e4, end_s, end_s, 0, 0, None, None)
    )  # fmt: skip
    records.facts |= {"steps_executed": float(len(records.steps)), "num_slots": 4.0}
    config = json.loads(json.dumps(like.config))
    config["backend"] = {"_target_": "X", **backend}
    system = {"backend": str(backend.pop("name", "stop_free"))}
    config["choices"] |= system
    manifest = {**like.manifest, "choices": {**like.manifest["choices"], **system}}
    with RunStore(root / "runs").create(run_id, manifest, yaml.safe_dump(config)) as writer:
        return writer.finish(records, metrics.compute(records))


def hanging(
    root: Path, timeout_s: float, *, hangs: int, kills: int, stress: int, is_lost: bool = False
) -> StoredRun:
    """An hour of two workers: each hang is seen a tenth of a second late, and trained on from
    two tenths after that; then so many are killed in error. Of a job that was lost no step
    counts."""
    records = RunRecords(grants=[GrantRecord("0", 0.0, 3600.0, (0, 1), BATCH, None)])
    at_s = 0.0
    for number in range(hangs):
        for _ in range(20):
            records.steps.append(
                StepRecord("0", len(records.steps), 2, BATCH, at_s, STEP_S, "0x0p+0")
            )
            at_s += STEP_S
        worker = f"0.w{number + 2}"
        records.faults.append(FaultRecord(at_s, "SIGSTOP", worker, "steady", -1, 2))
        seen_s = at_s + timeout_s + 0.1
        records.accusations.append(AccusationRecord("0", seen_s, worker, "0.w1", timeout_s))
        at_s = seen_s + 0.2
        records.steps.append(StepRecord("0", len(records.steps), 1, BATCH, at_s, STEP_S, "0x0p+0"))
        at_s += STEP_S
    records.accusations += [
        AccusationRecord("0", 1000.0 + kill, f"0.w{100 + kill}", "0.w1", timeout_s)
        for kill in range(kills)
    ]
    records.steps.append(StepRecord("0", len(records.steps), 2, BATCH, at_s, STEP_S, "0x0p+0"))
    records.facts["stress_processes"] = float(stress)
    if is_lost:
        records.steps.clear()
    return write(root, f"hang-{timeout_s}-{stress}", records, hang_timeout_s=timeout_s)


@pytest.fixture
def hangs(tmp_path: Path) -> list[ReportRun]:
    return name(
        [
            hanging(tmp_path, 0.2, hangs=6, kills=0, stress=0),
            hanging(tmp_path, 0.5, hangs=6, kills=0, stress=0),
            hanging(tmp_path, 0.2, hangs=0, kills=3, stress=4),
            hanging(tmp_path, 0.5, hangs=0, kills=0, stress=4),
        ]
    )


def test_hangs_and_false_kills_are_counted_by_time_out_and_load(hangs: list[ReportRun]) -> None:
    found = watched(hangs)
    assert list(found) == [HangCell("toy", load, at) for load in (0, 4) for at in (0.2, 0.5)]
    seen = found[HangCell("toy", 0, 0.5)]
    assert (seen.num_hangs, seen.num_false_kills, seen.hours) == (6, 0, 1.0)
    assert seen.detection_s == pytest.approx([0.6] * 6)
    assert seen.next_step_s == pytest.approx([0.6 + 0.2] * 6), "less the usual step"
    loaded = found[HangCell("toy", 4, 0.2)]
    assert (loaded.num_hangs, loaded.num_false_kills, loaded.hours) == (0, 3, 1.0)


def test_the_rates_of_jobs_that_were_lost_are_drawn(tmp_path: Path) -> None:
    lost = hanging(tmp_path, 0.2, hangs=0, kills=9, stress=4, is_lost=True)
    with mpl.rc_context(style.RC):
        (drawing,) = FIGURES["hang_detection"].draw(name([lost]))
    assert drawing.table is not None
    (row,) = drawing.table.rows
    assert dict(zip(drawing.table.header, row, strict=True))["false kills"] == "9"


def rescale(number: int, before: int, after: int, at_s: float, **fields: object) -> ChangeRecord:
    """Takes a second, of which a quarter is stopped."""
    values: dict[str, object] = {"outcome": "done", "stopping_time_s": 0.25, **fields}
    kind = "rescale" if before else "start"
    slots = tuple(range(before)), tuple(range(after))
    return ChangeRecord(number, "0", kind, at_s, at_s + 1.0, values["outcome"], *slots,  # type: ignore[arg-type]
                        values["stopping_time_s"], None)  # type: ignore[arg-type]  # fmt: skip


def way_down(**fields: object) -> list[ChangeRecord]:
    """From three slots to one and up again; ``fields`` of the middle change."""
    return [
        rescale(0, 0, 3, 0.0, stopping_time_s=None),
        rescale(1, 3, 2, 5.0, **fields),
        rescale(2, 2, 1, 10.0),
        rescale(3, 1, 3, 15.0),
        rescale(4, 3, 2, 20.0),
    ]


def test_a_profile_goes_from_the_largest_size_to_the_end_of_the_last() -> None:
    (only,) = profiles(way_down())
    assert only == Profile(3, 14.0, 0.5)
    assert only.training_s == 13.5
    assert profiles(way_down(), dilation=2.0)[0].total_s == 28.0


@pytest.mark.parametrize("fields", [{"outcome": "failed"}, {"stopping_time_s": None}])
def test_a_way_down_that_was_broken_is_no_profile(fields: dict[str, object]) -> None:
    assert profiles(way_down(**fields)) == []
    assert profiles([rescale(0, 0, 3, 0.0), rescale(1, 3, 1, 5.0), rescale(2, 1, 3, 9.0)]) == []


@pytest.fixture
def profiled(tmp_path: Path) -> list[ReportRun]:
    runs = []
    for backend in ("stop_free", "stop_resume"):
        factor = 1.0 if backend == "stop_free" else 3.0
        changes = [
            rescale(c.change_id, len(c.from_slots), len(c.to_slots), factor * c.requested_s)
            for c in way_down()
        ]
        grants = [GrantRecord("0", 0.0, 90.0, (0, 1, 2), BATCH, None)]
        steps = [
            StepRecord("0", k, size, BATCH, 10.0 * (3 - size) + k * STEP_S, STEP_S, "0x0p+0")
            for size in (3, 2, 1)
            for k in range(10)
        ]
        records = RunRecords(changes=changes, grants=grants, steps=steps)
        runs.append(write(tmp_path, f"profile-{backend}", records, name=backend))
    return name(runs)


def test_profiles_are_compared_with_those_of_stop_free(profiled: list[ReportRun]) -> None:
    with mpl.rc_context(style.RC):
        (drawing,) = FIGURES["profiling_time"].draw(profiled)
    assert drawing.table is not None
    rows = {row[0]: dict(zip(drawing.table.header, row, strict=True)) for row in drawing.table.rows}
    assert rows["toy: stop-free"]["total p50 s"] == "14.000"
    assert rows["toy: stop-resume"]["over stop-free"] == "3.14"
    assert rows["toy: stop-free"]["samples/s on 2"] == "80"


@pytest.mark.parametrize(
    ("figure", "of"), [("hang_detection", "hangs"), ("profiling_time", "profiled")]
)
def test_they_are_drawn_and_labelled(figure: str, of: str, request: pytest.FixtureRequest) -> None:
    with mpl.rc_context(style.RC):
        drawings: list[Drawing] = FIGURES[figure].draw(request.getfixturevalue(of))
    for drawing in drawings:
        assert drawing.figure is not None, drawing.missing
        assert re.search(r"\d trials? each", drawing.figure.get_supxlabel())
        for axis in drawing.figure.axes:
            assert re.match(r"\S.*\(.+\)$", axis.get_xlabel())


@pytest.mark.parametrize(
    ("figure", "of"), [("hang_detection", "profiled"), ("profiling_time", "hangs")]
)
def test_without_their_runs_they_say_so(
    figure: str, of: str, request: pytest.FixtureRequest
) -> None:
    (drawing,) = FIGURES[figure].draw(request.getfixturevalue(of))
    assert "No " in drawing.missing

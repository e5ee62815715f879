"""Figures of single changes and of faults, on a run whose steps are written by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest
import yaml
from sample_runs import write_run

from harness.metrics import compute as metrics
from harness.metrics.samples_lost import samples_lost
from harness.results.records import ChangeRecord, FaultRecord, JobRecord, RunRecords, StepRecord
from harness.results.store import RunStore, StoredRun
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures import FIGURES
from reports.figures.parallelism import scalings
from reports.figures.rescale_phases import phase_medians
from reports.measures.recoveries import recoveries, recovery_s
from reports.measures.rescales import measure
from reports.measures.transient import break_even_s, whole_windows
from reports.runs.selection import ReportRun, name

PERIOD_S, BATCH = 0.1, 32


def steps_of(changes: int, stop_s: float, num_slow: int = 0) -> list[StepRecord]:
    """Forty steps at 1 worker, of which the last may take twice as long, a stop, forty at 2, a
    stop, and so on."""
    steps, at_s = [], 0.0
    for number in range(changes + 1):
        for each in range(40):
            workers, period_s = 1 + number % 2, PERIOD_S * (1 + (each >= 40 - num_slow))
            steps.append(StepRecord("0", len(steps), workers, BATCH, at_s, period_s, "0x0p+0"))
            at_s += period_s
        at_s += stop_s
    return steps


def write_changes(
    root: Path,
    transfer: str,
    stop_s: float,
    window_s: float = 0.0,
    backend: str = "stop_free",
    num_slow: int = 0,
    workload: str = "bert",
    batch: int = BATCH,
    **pool: int,
) -> StoredRun:
    """A live run of six rescales that stop for so long, and one fault in the last stretch; the
    state is copied during the slow steps."""
    like = write_run(root / "like", live=True, backend=backend)
    steps = [replace(step, global_batch=batch) for step in steps_of(6, stop_s, num_slow)]
    records = RunRecords(steps=steps)
    for number in range(6):
        asked = steps[40 * (number + 1) - num_slow - 1].started_s + PERIOD_S / 2
        copy_s = stop_s + num_slow * 2 * PERIOD_S
        sizes = ((0,), (0, 1)) if number % 2 == 0 else ((0, 1), (0,))
        records.changes.append(
            ChangeRecord(
                number, "0", "rescale", asked, asked + stop_s + 0.2, "done", *sizes, stop_s,
                samples_lost(steps, asked), {"join": 0.3, "copy": copy_s, "switch": stop_s},
            )
        )  # fmt: skip
    records.faults.append(FaultRecord(steps[-20].started_s, "SIGKILL", "0.w2", "steady", -1, 2))
    end_s = steps[-1].started_s + PERIOD_S
    samples = float(batch * len(steps))
    records.jobs.append(
        JobRecord("0", workload, "", 0.0, 1, batch, samples, None, "none", "finished", 0.0, end_s,
                  samples, end_s, end_s, 6, 0, None, None)
    )  # fmt: skip
    records.facts |= {"steps_executed": float(len(steps)), "num_slots": 2.0}
    config = json.loads(json.dumps(like.config))
    config["backend"] = {"_target_": "X", "transfer": transfer, "start": "preimported"}
    config["scheduler"] = {"_target_": "X", "every_s": window_s}
    config["workload"] = {"pool": {workload: {"_target_": "X", **pool}}}
    config["trace"] = {**config.get("trace", {}), "batch": batch}
    manifest = {**like.manifest, "hardware": like.manifest["hardware"]}
    run_id = "-".join(["run", transfer, workload, str(batch), *map(str, pool.values())])
    with RunStore(root / "runs").create(run_id, manifest, yaml.safe_dump(config)) as w:
        return w.finish(records, metrics.compute(records))


@pytest.fixture
def runs(tmp_path: Path) -> list[ReportRun]:
    options = {"window_s": 4.0, "state_bytes": 10**8}
    return name(
        [
            write_changes(tmp_path, "background", 0.004, **options),  # type: ignore[arg-type]
            write_changes(tmp_path, "broadcast", 0.5, **options),  # type: ignore[arg-type]
        ]
    )


def test_trials_have_their_losses_and_noise_beside_them(runs: list[ReportRun]) -> None:
    measured = measure(runs)
    cells = measured.by_cell()
    assert [(cell.change, cell.system) for cell in cells] == [
        ("1→2", "stop-free background"),
        ("1→2", "stop-free broadcast"),
        ("2→1", "stop-free background"),
        ("2→1", "stop-free broadcast"),
    ]
    for cell, trials in cells.items():
        stop_s = 0.5 if "broadcast" in cell.system else 0.004
        assert [trial.lost_steps for trial in trials] == pytest.approx([stop_s / PERIOD_S] * 3)
        assert [trial.net_steps for trial in trials] == pytest.approx([stop_s / PERIOD_S] * 3)
    noise = measured.noise_of(workload="bert")
    assert len(noise) == 12
    assert [one.lost_steps for one in noise] == pytest.approx([0.0] * 12, abs=1e-6)


@pytest.mark.parametrize(
    "figure",
    [
        *("rescale_cost", "samples_lost_noise", "rescale_phases", "state_size", "recovery_time"),
        "loss_over_step_time",
    ],
)
def test_figures_of_single_changes_are_drawn_and_labelled(
    figure: str, runs: list[ReportRun]
) -> None:
    with mpl.rc_context(style.RC):
        drawings: list[Drawing] = FIGURES[figure].draw(runs)
    assert drawings
    for drawing in drawings:
        if drawing.name == "recovery-outcomes":  # numbers alone
            continue
        assert drawing.figure is not None, drawing.missing
        assert drawing.table is not None
        assert re.search(r"\d trials? each", drawing.figure.get_supxlabel())
        for axis in drawing.figure.axes:
            assert re.match(r"\S.*\(.+\)$", axis.get_xlabel() or "shared (axis)")


def test_losses_are_told_by_the_part_in_which_they_lie(tmp_path: Path) -> None:
    slow = write_changes(tmp_path, "background", 0.05, num_slow=4)
    stopping = write_changes(tmp_path, "none", 0.5, backend="stop_resume")
    with mpl.rc_context(style.RC):
        growing, shrinking = FIGURES["loss_in_parts"].draw(name([slow, stopping]))
    for drawing in (growing, shrinking):
        assert drawing.table is not None
        assert drawing.table.rows == [  # four steps twice as long, half a step's stop
            ["bert: stop-free", "3", "0.00", "4.00", "0.50", "0.00", "4.50", "4.50"]
        ], "a job that stops at once has no parts"
        assert drawing.figure is not None
        assert re.search(r"\d trials each", drawing.figure.get_supxlabel())
    (nothing,) = FIGURES["loss_in_parts"].draw(name([stopping]))
    assert "continue training" in nothing.missing


def test_parts_of_steps_of_two_sizes_are_told_apart(tmp_path: Path) -> None:
    runs = name(
        [
            write_changes(tmp_path, transfer, 0.05, num_slow=4, batch=batch)
            for transfer, batch in (("background", 10), ("background", 20), ("broadcast", 20))
        ]
    )
    with mpl.rc_context(style.RC):
        drawing = FIGURES["loss_in_parts"].draw(runs)[0]
    assert drawing.table is not None
    assert {row[0] for row in drawing.table.rows} == {
        "bert, 10 samples: stop-free background",
        "bert, 20 samples: stop-free background",
        "bert, 20 samples: stop-free broadcast",
    }


def test_parts_are_told_by_the_size_of_the_state(tmp_path: Path) -> None:
    options = {"num_slow": 4, "workload": "wide"}
    runs = name(
        [
            write_changes(tmp_path, "background", 0.05, state_bytes=size, **options)  # type: ignore[arg-type]
            for size in (10**7, 10**8)
        ]
    )
    with mpl.rc_context(style.RC):
        drawing = FIGURES["loss_in_parts"].draw(runs)[0]
    assert drawing.table is not None
    assert [row[0].split(":")[0] for row in drawing.table.rows] == ["wide, 10 MB", "wide, 100 MB"]


def test_a_states_loss_stands_beside_a_warm_restarts(tmp_path: Path) -> None:
    runs = name(
        [
            write_changes(tmp_path, "background", 0.004, state_bytes=10**8),
            write_changes(tmp_path, "none", 0.5, backend="warm_restart", state_bytes=10**8),
            write_changes(tmp_path, "elsewhere", 0.004, state_bytes=10**7),
        ]
    )
    with mpl.rc_context(style.RC):
        drawing = FIGURES["state_size"].draw(runs)[0]
    assert drawing.table is not None
    assert drawing.figure is not None
    cells = {row[0].split(",")[1]: row[-2:] for row in drawing.table.rows if "stop-free" in row[0]}
    assert cells == {" 100 MB": ["0.04", "0.01"], " 10 MB": ["0.04", ""]}
    labels = drawing.figure.axes[1].get_legend_handles_labels()[1]
    assert [label for label in labels if "a tenth of warm-restart" in label]


def test_the_table_has_medians_and_no_interval_below_five(runs: list[ReportRun]) -> None:
    with mpl.rc_context(style.RC):
        drawing = FIGURES["rescale_cost"].draw(runs)[0]
    assert drawing.table is not None
    (row,) = [row for row in drawing.table.rows if "broadcast" in row[0]]
    cells = dict(zip(drawing.table.header, row, strict=True))
    assert (cells["n"], cells["stop p50 ms"]) == ("3", "500")
    assert cells["lost p50 steps"] == "5.00"
    assert row[3] == "none, n = 3"


@pytest.mark.parametrize("figure", ["loss_over_step_time", "state_size"])
def test_of_two_warm_restarts_none_is_the_one_to_stand_beside(tmp_path: Path, figure: str) -> None:
    runs = name(
        [
            write_changes(tmp_path, "background", 0.004, state_bytes=10**8),
            write_changes(tmp_path, "none", 0.5, backend="warm_restart", state_bytes=10**8),
            write_changes(tmp_path, "other", 0.25, backend="warm_restart", state_bytes=10**8),
        ]
    )
    with mpl.rc_context(style.RC):
        drawing = FIGURES[figure].draw(runs)[0]
    assert drawing.table is not None
    assert [row[-1] for row in drawing.table.rows] == ["", "", ""]


def test_a_loss_stands_beside_a_warm_restarts_at_the_same_step_and_state(tmp_path: Path) -> None:
    runs = name(
        [
            write_changes(tmp_path, "background", 0.004, state_bytes=10**8),
            write_changes(tmp_path, "none", 0.5, backend="warm_restart", state_bytes=10**8),
            write_changes(tmp_path, "elsewhere", 0.25, backend="warm_restart", state_bytes=10**7),
        ]
    )
    with mpl.rc_context(style.RC):
        drawing = FIGURES["loss_over_step_time"].draw(runs)[0]
    assert drawing.table is not None
    assert drawing.figure is not None
    assert {(row[0].split(",", 1)[1], *row[1:]) for row in drawing.table.rows} == {
        (" 10 MB, 100 ms", "3", "2.500", "none, n = 3", ""),
        (" 100 MB, 100 ms", "3", "5.000", "none, n = 3", ""),
        (" 100 MB, 100 ms", "3", "0.040", "none, n = 3", "0.01"),
    }
    titles = [axis.get_title("left") for axis in drawing.figure.axes]
    assert titles == ["10 MB of state", "100 MB of state"]


def test_a_workloads_losses_stand_by_the_samples_of_its_steps(tmp_path: Path) -> None:
    runs = name(
        [
            write_changes(tmp_path, "background", 0.1, workload="bert", batch=10),
            write_changes(tmp_path, "background", 0.2, workload="bert", batch=20),
            write_changes(tmp_path, "background", 0.3, workload="vgg16", batch=10),
        ]
    )
    with mpl.rc_context(style.RC):
        drawing = FIGURES["loss_over_step_time"].draw(runs)[0]
    assert drawing.table is not None
    assert drawing.figure is not None
    assert [row[0].split(",", 1)[1] for row in drawing.table.rows] == [" bert, 100 ms"] * 2
    assert [row[2] for row in drawing.table.rows] == ["1.000", "2.000"]
    assert [axis.get_title("left") for axis in drawing.figure.axes] == ["bert"]


@pytest.mark.parametrize(("stop_s", "scale"), [(0.004, "linear"), (0.5, "symlog")])
def test_an_axis_of_losses_has_numbers_however_small_they_are(
    stop_s: float, scale: str, tmp_path: Path
) -> None:
    runs = name([write_changes(tmp_path, "background", stop_s, state_bytes=10**8)])
    with mpl.rc_context(style.RC):
        drawing = FIGURES["loss_over_step_time"].draw(runs)[0]
    assert drawing.figure is not None
    (axis,) = drawing.figure.axes
    assert axis.get_yscale() == scale
    low, high = axis.get_ylim()
    assert sum(low <= tick <= high for tick in axis.get_yticks()) >= 3
    assert ("Logarithmic" in drawing.caption) == (scale == "symlog")


@pytest.mark.parametrize("figure", sorted({"parallelism", "transient_slots"}))
def test_figures_without_their_runs_say_so(figure: str, runs: list[ReportRun]) -> None:
    (drawing,) = FIGURES[figure].draw(runs)
    assert "No " in drawing.missing


def test_recovery_is_counted_from_the_signal_to_the_next_committed_step() -> None:
    steps = [StepRecord("0", k, 2, 8, k * 1.0, 1.0, "0x0p+0") for k in range(20)]
    # Struck in the middle of the step that begins at 20, which is redone by one worker.
    steps.append(StepRecord("0", 20, 1, 8, 20.0, 1.8, "0x0p+0"))
    fault = FaultRecord(20.5, "SIGKILL", "0.w2", "steady", -1, 2)
    assert recovery_s(steps, fault) == pytest.approx(21.8 - 20.5 - 1.0)
    # Struck in a step that still ends; a resumed job begins the next one four seconds later.
    steps[20:] = [StepRecord("0", k, 2, 8, s, 1.0, "0x0p+0") for k, s in ((20, 20.0), (21, 25.0))]
    assert recovery_s(steps, fault) == pytest.approx(26.0 - 20.5 - 1.0)
    assert recovery_s(steps[:21], fault) is None, "nothing came after it"


def test_recoveries_name_their_system(runs: list[ReportRun]) -> None:
    assert {one.system for one in recoveries(runs)} == {
        "stop-free background",
        "stop-free broadcast",
    }


def test_a_fault_that_another_overtook_does_not_count_and_few_steps_are_no_hang(
    tmp_path: Path,
) -> None:
    def run(*times: float) -> list[ReportRun]:
        stored = write_changes(tmp_path / str(times), "background", 0.0)
        records = stored.records
        records.faults[:] = [
            FaultRecord(at_s, "SIGKILL", "0.w2", "steady", -1, 3, "update", "update", 1, 0)
            for at_s in times
        ]
        manifest = {**stored.manifest}
        create = RunStore(tmp_path / f"faults-{times}").create
        with create("run", manifest, yaml.safe_dump(dict(stored.config))) as writer:
            return name([writer.finish(records, metrics.compute(records))])

    both = recoveries(run(1.01, 2.01))
    assert [(one.fault.at_s, one.phase) for one in both] == [(1.01, "update"), (2.01, "update")]
    (second,) = recoveries(run(2.01, 2.02))
    assert second.fault.at_s == 2.02
    (early,) = recoveries(run(0.01))
    assert (early.recovery_s, early.is_hang) == (None, False)
    (late,) = recoveries(run(1e6))
    assert late.is_hang


def test_phases_are_medians_in_recorded_order(runs: list[ReportRun]) -> None:
    trials = measure(runs).by_cell()
    medians = phase_medians(next(iter(trials.values())))
    assert medians == {
        "join": pytest.approx(0.3),
        "copy": pytest.approx(0.004),
        "switch": pytest.approx(0.004),
    }


def test_whole_windows_leave_out_the_first_and_the_rest() -> None:
    steps = [StepRecord("0", k, 1, 10, k * 0.4, 0.4, "0x0p+0") for k in range(30)]  # 12 s
    assert whole_windows(steps, 5.0) == pytest.approx(25.0)
    assert whole_windows(steps, 7.0) is None
    assert whole_windows(steps[:20], 2.0, until_s=5.0) == pytest.approx(25.0)
    assert whole_windows(steps, 5.0, until_s=9.9) is None, "its script was over in the second"
    assert whole_windows([], 5.0) is None


def test_break_even_is_that_of_the_paper() -> None:
    assert break_even_s(30.0, 0.2) == pytest.approx(2 * 30 * 1.2 / 0.2)


def test_strong_and_weak_scaling_are_told_by_the_batch() -> None:
    speeds = {
        ("bert", "s", 1, 32): [10.0],
        ("bert", "s", 2, 32): [16.0],
        ("bert", "s", 2, 64): [19.0],
    }
    assert scalings(speeds) == {
        ("bert", "s", "strong"): {1: [10.0], 2: [16.0]},
        ("bert", "s", "weak"): {1: [10.0], 2: [19.0]},
    }

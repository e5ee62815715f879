"""What the figures show, on examples worked by hand."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import yaml
from sample_runs import write_run

from harness.metrics.statistics import estimate
from harness.results.records import ChangeRecord, GrantRecord
from harness.results.store import StoredRun, load_run
from reports.drawing import style
from reports.figures import comparison, jct_distribution, jobs_completed, slots_in_use
from reports.figures.slots_in_use import binned, usage
from reports.figures.stop_resume_phases import summarise
from reports.figures.timeline import stretches
from reports.measures.fidelity import compare
from reports.runs.selection import ReportRun, name, select


def test_intervals_need_five_trials() -> None:
    assert estimate([1.0, 2.0, 3.0, 4.0]).half_width is None
    five = estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (five.mean, five.num_trials) == (3.0, 5)
    assert five.half_width == pytest.approx(2.776 * 1.5811 / 5**0.5, rel=1e-3)
    with pytest.raises(ValueError, match="no values"):
        estimate([])


def test_slots_in_use() -> None:
    grants = [
        GrantRecord("a", 0, 10, (0, 1), 8, None),
        GrantRecord("b", 5, 10, (2,), 8, None),
        GrantRecord("a", 10, 12, (0,), 8, None),
    ]
    times, used = usage(grants)
    assert times.tolist() == [0, 5, 10, 12]
    assert used.tolist() == [2, 3, 1, 0]


def test_slots_in_use_agrees_with_the_metric(tmp_path: Path) -> None:
    run = write_run(tmp_path, scheduler="uniform")
    times, used = usage(run.records.grants)
    area = float((used[:-1] * (times[1:] - times[:-1])).sum())
    window = run.metrics["makespan_s"] * run.facts["num_slots"]
    assert area / window == pytest.approx(run.metrics["slot_utilization_mean"])


def test_many_steps_are_drawn_as_means_over_equal_times() -> None:
    times = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 8.0])
    used = np.array([4.0, 2.0, 4.0, 2.0, 1.0, 0.0])
    edges, means = binned(times, used, count=2)
    assert edges.tolist() == [0, 4, 8]
    assert means.tolist() == [3, 1, 0]
    same = binned(times, used, count=6)
    assert same[0] is times
    assert same[1] is used


def test_neighbouring_slots_are_one_box() -> None:
    assert list(stretches([3, 0, 1, 5, 4])) == [(0, 1), (3, 5)]
    assert list(stretches([])) == []


def test_phases_are_medians_per_workload_and_size() -> None:
    def change(number: int, kind: str, before: int, after: int, **phases: float) -> ChangeRecord:
        slots = tuple(range(before)), tuple(range(after))
        return ChangeRecord(number, "a", kind, 0.0, 1.0, "done", *slots, None, None, phases)

    changes = [
        change(1, "rescale", 1, 2, save=1.0, load=4.0),
        change(2, "rescale", 1, 2, save=2.0, load=6.0),
        change(3, "rescale", 1, 2, save=9.0, load=5.0),
        change(4, "start", 0, 1, spawn=3.0),
        change(5, "start", 0, 1),
    ]
    first, second = summarise([("bert", changes)])
    assert (first.label, first.count, first.medians) == (
        "bert rescale 1→2",
        3,
        {"save": 2.0, "load": 5.0},
    )
    assert (first.total, first.low, first.high) == (8.0, 6.5, 11.0)
    assert (second.label, second.count, second.total) == ("bert start 0→1", 1, 3.0)


@dataclass
class Fake:
    """Just what ``compare`` reads of a run."""

    system: str
    is_live: bool
    trial: tuple[int, int]
    metrics: Mapping[str, float]
    dilation: float = 1.0


def test_wall_clock_metrics_are_compared_on_the_clock_of_the_engine() -> None:
    name, length = "stopping_time_scale_in_mean_s", "makespan_s"
    runs: list[Any] = [
        Fake("fifo", True, (0, 0), {name: 8.0, length: 8.0}, dilation=4.0),
        Fake("fifo", False, (0, 0), {name: 3.0, length: 8.0}),
    ]
    assert {one.metric: one.errors for one in compare(runs)} == {name: [0.5], length: [0.0]}


def test_live_trials_are_held_to_the_simulation_of_their_seed() -> None:
    runs: list[Any] = [
        Fake("fifo", True, (0, 0), {"makespan_s": 100.0, "rescales": 0.0}),
        Fake("fifo", True, (1, 0), {"makespan_s": 200.0}),
        Fake("fifo", False, (0, 0), {"makespan_s": 110.0, "rescales": 0.0}),
        Fake("fifo", False, (1, 0), {"makespan_s": 190.0}),
        Fake("edf", True, (0, 0), {"makespan_s": 100.0}),
        Fake("uniform", True, (3, 4), {"makespan_s": 50.0}),
        Fake("uniform", False, (0, 0), {"makespan_s": 60.0}),
    ]
    fifo, uniform = compare(runs)
    assert (fifo.system, fifo.metric) == ("fifo", "makespan_s")
    assert fifo.errors == pytest.approx([0.1, -0.05])
    assert fifo.error.mean == pytest.approx(0.025)
    assert fifo.error.half_width is None
    assert fifo.spread == pytest.approx((-1 / 3, 1 / 3))
    assert uniform.errors == pytest.approx([0.2]), "the only simulated seed serves every trial"


def test_live_trials_are_held_to_the_mean_of_drawn_simulations() -> None:
    live: list[Any] = [Fake("fifo", True, (0, n), {"makespan_s": 100.0 + n}) for n in range(5)]
    alike: list[Any] = [Fake("fifo", False, (0, n), {"makespan_s": 104.1}) for n in range(7)]
    drawn: list[Any] = [
        Fake("fifo", False, (0, n), {"makespan_s": 104.1 + step})
        for n, step in enumerate((-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0))
    ]
    (plain,), (varied,) = compare([*live, *alike]), compare([*live, *drawn])
    assert varied.errors == pytest.approx(plain.errors)
    assert set(plain.draws) == {0.0}
    assert plain.error == estimate(plain.errors), "equal simulations add nothing to the interval"
    own = estimate([run.metrics["makespan_s"] / 104.1 for run in drawn]).half_width
    assert own is not None
    assert plain.error.half_width is not None
    assert varied.error.half_width == pytest.approx(math.hypot(plain.error.half_width, own))
    (few,) = compare([*live, *drawn[:2]])
    assert few.error.half_width is None, "two draws do not tell how far their mean is known"


def test_errors_at_equal_speed_leave_out_what_a_slow_machine_does() -> None:
    slow = {"makespan_s": 200.0, "speed_over_profile": 0.5}
    right = {"makespan_s": 100.0, "speed_over_profile": 1.0}
    simulated = Fake("fifo", False, (0, 0), {"makespan_s": 100.0})
    runs: list[Any] = [Fake("fifo", True, (0, 0), slow), Fake("fifo", True, (0, 1), right)]
    (one,) = compare([*runs, simulated])
    assert one.errors == pytest.approx([-0.5, 0.0])
    assert one.error_at_equal_speed is not None
    assert one.error_at_equal_speed.mean == pytest.approx(0.0)
    unknown = Fake("fifo", True, (0, 2), {"makespan_s": 100.0})
    (one,) = compare([*runs, unknown, simulated])
    assert one.error_at_equal_speed is None


def test_errors_at_own_speeds_are_of_what_was_simulated_again() -> None:
    found = {"makespan_s": 200.0, "speed_over_profile": 0.5, "resimulated_makespan_s": 198.0}
    simulated = Fake("fifo", False, (0, 0), {"makespan_s": 100.0})
    runs: list[Any] = [Fake("fifo", True, (0, trial), found) for trial in range(2)]
    (one,) = compare([*runs, simulated])
    assert one.error_at_own_speeds is not None
    assert one.error_at_own_speeds.mean == pytest.approx(-0.01)
    without = Fake("fifo", True, (0, 2), {"makespan_s": 100.0})
    (one,) = compare([*runs, without, simulated])
    assert one.error_at_own_speeds is None


def renamed(run: StoredRun, run_id: str, **options: object) -> StoredRun:
    """A copy of a run under another id, with other options of its backend."""
    manifest = {**run.manifest, "run_id": run_id}
    config = {**run.config, "backend": {**run.config["backend"], **options}}
    return StoredRun(run.path, manifest, config, run.metrics)


def test_names_show_the_options_that_differ_and_no_others(tmp_path: Path) -> None:
    cold = write_run(tmp_path, live=True)
    warm = renamed(cold, "warm", start="preimported")
    simulated = renamed(write_run(tmp_path), "simulated", start="preimported")
    systems = {run.run_id: (run.system, run.engine) for run in name([cold, warm, simulated])}
    assert systems == {
        cold.run_id: ("fifo / stop_resume, start=cold", "live"),
        "warm": ("fifo / stop_resume, start=preimported", "live"),
        "simulated": ("fifo / stop_resume, start=preimported", "simulated"),
    }
    assert [run.system for run in name([cold])] == ["fifo / stop_resume"]


def test_studies_that_differ_in_many_options_are_told_apart_by_name(tmp_path: Path) -> None:
    # The second study has options that the first did not know, the same in all its runs.
    first = of_study(write_run(tmp_path), "one")
    second = of_study(renamed(first, "b", warmth="spare", buffers=4), "two")
    third = of_study(renamed(second, "c", start="preimported"), "two")
    assert {run.run_id: run.system for run in name([first, second, third])} == {
        first.run_id: "fifo / stop_resume, study one, start=cold",
        "b": "fifo / stop_resume, study two, start=cold",
        "c": "fifo / stop_resume, study two, start=preimported",
    }
    # One option is told itself, and so are those of runs that no study has made.
    one_option = of_study(renamed(first, "d", start="preimported"), "two")
    assert [run.system for run in name([first, one_option])] == [
        "fifo / stop_resume, start=cold",
        "fifo / stop_resume, start=preimported",
    ]
    alone = of_study(second, "")
    assert "buffers=4" in name([first, alone])[0].system


def of_study(run: StoredRun, study: str) -> StoredRun:
    return StoredRun(run.path, {**run.manifest, "sweep": study}, run.config, run.metrics)


def test_a_legend_of_long_names_leaves_room_for_the_figure(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    options = [{"option": f"{number:02d}" + "x" * 26, "y" * 60: number} for number in range(8)]
    runs = name(renamed(run, str(number), **each) for number, each in enumerate(options))
    with mpl.rc_context(style.RC):
        (drawing,) = jct_distribution.draw(runs)
    assert drawing.figure is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a layout that does not work is a warning
        drawing.figure.draw_without_rendering()
    assert drawing.figure.axes[0].get_window_extent().height > 150
    (legend,) = drawing.figure.legends
    assert legend.get_window_extent().x1 <= drawing.figure.bbox.width, "names are not cut"


def test_more_than_eight_systems_have_a_panel_each(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    runs = name(renamed(run, str(number), option=f"{number:02d}") for number in range(9))
    with mpl.rc_context(style.RC):
        (drawing,) = jct_distribution.draw(runs)
    assert drawing.figure is not None
    shown = [axis for axis in drawing.figure.axes if axis.get_visible()]
    titles = [axis.get_title(loc="left") for axis in shown]
    assert len({*titles}) == len(titles) == 9
    assert all(len(axis.lines) == 9 for axis in shown), "the others are grey"
    assert not drawing.figure.legends


def test_a_long_title_of_a_panel_has_its_numbers_in_a_second_line(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    options = {"an_option": "x" * 26, "another": "y" * 10}
    long, short = name([renamed(run, "a", **options), run])
    with mpl.rc_context(style.RC):
        (drawing,) = slots_in_use.draw([long, short])
        assert drawing.figure is not None
        drawing.figure.draw_without_rendering()
        titles = {axis.get_title(loc="left"): axis for axis in drawing.figure.axes}
    assert {title.count("\n") for title in titles} == {0, 1}
    for axis in titles.values():
        assert axis._left_title.get_window_extent().x1 <= drawing.figure.bbox.width


def test_trials_of_one_system_share_its_name(tmp_path: Path) -> None:
    runs = name(write_run(tmp_path, live=True, repetition=number) for number in range(3))
    assert {run.system for run in runs} == {"fifo / stop_resume"}
    assert [run.trial for run in runs] == [(0, 0), (0, 1), (0, 2)]
    assert style.note(runs) == "3 trials each"


def test_a_seed_that_is_the_runs_own_makes_no_other_system(tmp_path: Path) -> None:
    runs = []
    for seed in range(3):
        run = write_run(tmp_path, seed=seed)
        config = {
            **run.config,
            "seed": seed,
            "scheduler": {**run.config["scheduler"], "seed": seed},
        }
        runs.append(StoredRun(run.path, run.manifest, config, run.metrics))
    assert {run.system for run in name(runs)} == {"fifo / stop_resume"}
    other = {**runs[0].config, "scheduler": {**runs[0].config["scheduler"], "seed": 7}}
    own_seed = StoredRun(runs[0].path, {**runs[0].manifest, "run_id": "x"}, other, runs[0].metrics)
    assert "fifo / stop_resume, seed=7" in {run.system for run in name([*runs, own_seed])}


def test_jobs_completed_are_counted_in_the_mean_of_the_trials() -> None:
    times, counts = jobs_completed.mean_count([np.array([5.0, 1.0]), np.array([3.0])])
    assert times.tolist() == [0.0, 1.0, 3.0, 5.0]
    assert counts.tolist() == [0.0, 0.5, 1.0, 1.5]
    times, counts = jobs_completed.mean_count([np.array([])])
    assert (times.tolist(), counts.tolist()) == ([0.0], [0.0])


def test_jobs_completed_are_drawn_beside_a_system_that_finished_none(tmp_path: Path) -> None:
    runs = name([write_run(tmp_path), write_run(tmp_path, scheduler="uniform")])
    (drawing,) = jobs_completed.draw(runs)
    assert drawing.figure is not None
    for run, others in zip(runs, reversed(runs), strict=True):
        jobs = list(run.jobs)
        run.jobs[:] = [replace(job, state="refused", finish_s=None) for job in jobs]
        (drawing,) = jobs_completed.draw(runs)
        assert drawing.figure is not None
        (axis,) = drawing.figure.axes
        ends = {line.get_label(): line.get_ydata()[-1] for line in axis.get_lines()}
        assert ends == {"arrived": len(jobs), run.label: 0, others.label: len(others.jobs)}
        run.jobs[:] = jobs
    for run in runs:
        run.jobs[:] = [replace(job, state="refused", finish_s=None) for job in run.jobs]
    (drawing,) = jobs_completed.draw(runs)
    assert "No job of" in drawing.missing


def test_long_options_tell_systems_apart_where_they_begin_alike(tmp_path: Path) -> None:
    runs = []
    for repetition, slots in enumerate((1, 2, 2)):
        run = write_run(tmp_path, repetition=repetition)
        script = [{"job": 0, "after_steps": 100, "num_slots": slots}]
        config = {**run.config, "scheduler": {**run.config["scheduler"], "script": script}}
        runs.append(StoredRun(run.path, run.manifest, config, run.metrics))
    trials = Counter(run.system for run in name(runs))
    assert sorted(trials.values()) == [1, 2]
    assert all(len(system) < 60 for system in trials)


def test_notes_mark_emulated_pace_and_foreign_profiles(tmp_path: Path) -> None:
    run = write_run(tmp_path, live=True)
    config = {**run.config, "engine": {**run.config["engine"], "pace": "profile"}}
    (paced,) = name([StoredRun(run.path, run.manifest, config, run.metrics)])
    assert paced.is_emulated
    assert style.note([paced]) == (
        "1 trial each; emulated pace (steps padded to a profile); profile not measured here"
    )
    measured = {**run.manifest, "profile": {"measured_here": True}}
    (here,) = name([StoredRun(run.path, measured, config, run.metrics)])
    assert "not measured here" not in style.note([here])


def test_what_was_not_recorded_is_marked_in_figures_and_tables(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    fields = ["deadline_s", "elastic", "events", "max_slots", "work_samples"]
    trace = {**run.manifest.get("trace", {}), "generated": fields}
    metrics = {**run.metrics, "deadline_satisfactory_ratio": 0.5}
    recorded, made_up = (
        name([StoredRun(run.path, manifest, run.config, metrics)])
        for manifest in (
            {**run.manifest, "trace": {**trace, "generated": []}},
            {**run.manifest, "trace": trace},
        )
    )
    assert "not recorded" not in style.note(recorded)
    assert style.note(made_up).endswith(
        "not recorded in the trace: deadline_s, elastic, events, max_slots and 1 more"
    )
    (plain,), (marked,) = comparison.draw(recorded), comparison.draw(made_up)
    assert plain.table is not None
    assert marked.table is not None
    assert "deadlines met, %" in plain.table.header
    assert "deadlines met, % †" in marked.table.header
    assert "generated" not in plain.caption
    assert "but generated: deadline_s, elastic, events, max_slots, work_samples." in marked.caption


def test_a_study_is_its_label_its_folder_and_its_points(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    labelled = write_run(root, scheduler="fifo", sweep="mine")
    listed = write_run(root, scheduler="uniform", sweep="another")
    write_run(root, scheduler="edf", sweep="another")
    foldered = write_run(tmp_path / "runs" / "mine", scheduler="tiresias", sweep="another")
    points = tmp_path / "sweeps" / "mine" / "points.json"
    points.parent.mkdir(parents=True)
    points.write_text(json.dumps({"points": [{"run_id": listed.run_id}]}))
    chosen = {run.run_id for run in select([root], "mine")}
    assert chosen == {labelled.run_id, listed.run_id, foldered.run_id}
    assert len(select([root])) == 4


def test_names_come_from_the_stored_configuration_alone(tmp_path: Path) -> None:
    path = write_run(tmp_path).path
    config = yaml.safe_load((path / "config.yaml").read_text())
    config["choices"]["scheduler"] = "renamed"
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["choices"]
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    (path / "manifest.json").write_text(json.dumps(manifest))
    (run,) = name([load_run(path)])
    assert isinstance(run, ReportRun)
    assert run.system == "renamed / stop_resume"
    assert run.setting == "five_jobs on cpu4"  # nothing trained the pool of workloads


def test_time_units_suit_the_length() -> None:
    assert style.time_unit(120) == (1.0, "s")
    assert style.time_unit(3000) == (60.0, "min")
    assert style.time_unit(9000) == (3600.0, "h")
    assert style.time_unit(9e5) == (86400.0, "days")


def test_a_name_keeps_its_look_beside_any_others() -> None:
    looks = style.Looks(["b", "a", "b"])
    assert looks.colour("a") == style.PALETTE[0]
    assert looks.line("b") == {"color": style.PALETTE[1], "linestyle": style.DASHES[1]}
    assert SimpleNamespace(**looks.line("a")).linestyle == "-"

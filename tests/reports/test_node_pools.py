"""Schedulers over the size of the cluster, and the time of their plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest
import yaml
from sample_runs import write_run

from harness.metrics import compute as metrics
from harness.results.records import JobRecord
from harness.results.store import RunStore
from reports.drawing import style
from reports.figures import FIGURES
from reports.figures.planning_time import num_activations, plan_times_s
from reports.measures.pools import additional_by_count, pairs
from reports.runs.selection import ReportRun, name


def like(run, root: Path, scheduler: str, slots: int, seed: int, slower: float) -> None:
    """The sample run under another scheduler and size, all its times multiplied."""
    records = run.records
    records.jobs = [
        replace(
            one, arrival_s=0.0, first_start_s=60.0 * slower, finish_s=slower * (one.finish_s or 0)
        )
        for one in records.jobs
    ]
    records.facts["num_slots"] = float(slots)
    config = yaml.safe_load(yaml.safe_dump(run.config))
    choices = {**config["choices"], "scheduler": scheduler}
    config |= {"choices": choices, "seed": seed, "cluster": {"num_hosts": slots}}
    config["scheduler"] = {"_target_": "X", "every_s": 100.0}
    manifest = {**run.manifest, "choices": choices, "seed": seed}
    run_id = f"{scheduler}-{slots}-{seed}"
    with RunStore(root).create(run_id, manifest, yaml.safe_dump(config)) as writer:
        writer.finish(records, metrics.compute(records))


@pytest.fixture
def runs(tmp_path: Path) -> list[ReportRun]:
    first = write_run(tmp_path / "like")
    store = RunStore(tmp_path / "runs")
    found = []
    for slots, slower in ((4, 1.25), (8, 1.1)):
        for seed in range(5):
            for scheduler, factor in (("a_new_one", 1.0), ("old", slower + 0.01 * seed)):
                like(first, store.root, scheduler, slots, seed, factor)
                found.append(store.find(f"{scheduler}-{slots}-{seed}"))
    return name(found)


def test_the_slower_system_is_the_baseline_and_trials_meet_their_like(runs):
    found = pairs(runs)
    assert len(found) == 10
    assert {pair.baseline_run.stored.config["choices"]["scheduler"] for pair in found} == {"old"}
    assert all(pair.baseline_run.trial == pair.run.trial for pair in found)
    gains = {(pair.num_slots, pair.run.trial[0]): pair.additional_by_time() for pair in found}
    assert gains[4, 0] == pytest.approx(25.0)
    assert gains[8, 3] == pytest.approx(13.0)


def test_additional_jobs_by_counting():
    """At its 100th the other has 120, at its 200th 210: 20 and 5 of 100 more."""
    baseline = [float(at) for at in range(1, 251)]
    own = [0.5] * 120 + [150.0] * 90 + [1000.0] * 40
    assert additional_by_count(baseline, own) == pytest.approx((20 + 5) / 2)
    assert additional_by_count(baseline[:99], own) is None


def test_copies_without_tables_have_all_but_what_is_counted(runs):
    slim = []
    for run in runs:
        (run.stored.path / "jobs.csv.gz").unlink()
        manifest = {**run.stored.manifest, "left_out": {"jobs": 1}}
        slim.append(replace(run, stored=replace(run.stored, manifest=manifest)))
    with mpl.rc_context(style.RC):
        curves, bars = FIGURES["node_pools"].draw(slim)
    assert {row[-1] for row in curves.table.rows} == {""}
    assert curves.table.rows[0][-2].startswith("+27.0 ±")
    assert bars.figure is not None


def test_figures_for_every_scenario_and_all_together(runs):
    with mpl.rc_context(style.RC):
        curves, bars = FIGURES["node_pools"].draw(runs)
    assert [row[0].split(":")[0] for row in curves.table.rows] == ["4", "8"]
    assert curves.table.rows[0][-2].startswith("+27.0 ±")
    assert "5 trials each" in curves.figure._supxlabel.get_text()
    dots = curves.figure.axes[1].collections[0].get_offsets()
    assert len(dots) == 2 * 5, "single trials: two sizes, five seeds"
    heights = [patch.get_height() for patch in bars.figure.axes[0].patches]
    assert heights == pytest.approx([27.0, 12.0])
    (nothing,) = FIGURES["node_pools"].draw(runs[:1])
    assert nothing.missing.startswith("No two schedulers")


def test_runs_under_other_profiles_are_no_trials_of_one_setting(runs):
    stored = runs[0].stored
    other = dict(stored.manifest["choices"], profile="slow")
    twin = replace(stored, manifest={**stored.manifest, "choices": other})
    assert len({run.setting for run in name([stored, twin])}) == 2


def job(arrival_s: float, finish_s: float) -> JobRecord:
    return JobRecord("0", "w", "", arrival_s, 1, 1, 1.0, None, "none", "finished", arrival_s,
                     finish_s, 1.0, 1.0, 1.0, 0, 0, None, None)  # fmt: skip


@pytest.mark.parametrize(
    ("spans", "count"),
    [
        ([(0.0, 50.0)], 1),
        ([(10.0, 99.0)], 0),
        ([(10.0, 100.0)], 0),
        ([(100.0, 301.0)], 3),
        ([(10.0, 150.0), (120.0, 210.0), (390.0, 410.0)], 3),
    ],
)
def test_activations_are_multiples_of_the_period_with_a_job_there(spans, count):
    assert num_activations([job(*span) for span in spans], 100.0) == count


def test_planning_times_are_the_longest_calls(runs):
    run = runs[0]
    count = num_activations(run.jobs, 100.0)
    calls = sorted(run.stored.rows("latencies"), reverse=True)
    assert 0 < count < len(calls)
    assert plan_times_s(run) * 1e6 == pytest.approx(calls[:count])
    with mpl.rc_context(style.RC):
        drawings = FIGURES["planning_time"].draw(runs)
    assert [len(drawing.table.rows) for drawing in drawings] == [2, 2]
    assert [cell for drawing in drawings for cell in drawing.table.rows[0][1:2]] == ["5", "5"]
    assert all(" to " in row[4] for drawing in drawings for row in drawing.table.rows)
    (nothing,) = FIGURES["planning_time"].draw([])
    assert "every_s" in nothing.missing

"""Time of the plans of schedulers that decide on the clock (Hu et al., figure 16)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from harness.metrics.columns import Floats
from harness.results.records import JobRecord
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Time of a plan"
_BINS = 40


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure for each setting: histograms of the plans' wall-clock times, by system."""
    planning = [run for run in runs if _every_s(run) > 0 and "latencies" not in run.stored.left_out]
    drawings = [
        _chart(f"planning-time-{number}", setting, own)
        for number, ((setting,), own) in enumerate(groups(planning, "setting").items(), 1)
    ]
    reason = "No scheduler of the selection decides on the clock (option every_s)."
    return drawings or [Drawing("planning-time", TITLE, missing=reason)]


def num_activations(jobs: Sequence[JobRecord], every_s: float) -> int:
    """Return the number of multiples of the period at which a job was present.

    A job is present from its arrival, but not at its end.
    """
    count = 0
    until_s = -math.inf
    spans = sorted((job.arrival_s, job.finish_s) for job in jobs if job.finish_s is not None)
    for start_s, end_s in spans:
        first, last = max(start_s, until_s), max(end_s, until_s)
        count += math.ceil(last / every_s) - math.ceil(first / every_s) if last > first else 0
        until_s = last
    return count


def plan_times_s(run: ReportRun) -> Floats:
    """Return the times of the longest scheduler calls, one for each activation.

    The scheduler is called at every event too, to hand out freed slots, which takes little time.
    """
    calls_us = np.sort(np.asarray(run.stored.rows("latencies"), np.float64))[::-1]
    times: Floats = calls_us[: num_activations(run.jobs, _every_s(run))] / 1e6
    return times


def _every_s(run: ReportRun) -> float:
    return float(run.stored.config.get("scheduler", {}).get("every_s") or 0.0)


def _chart(name: str, setting: str, runs: Sequence[ReportRun]) -> Drawing:
    systems = {
        system: np.concatenate([plan_times_s(run) for run in own])
        for (system,), own in groups(runs, "system").items()
    }
    looks, names = style.Looks(systems), labels(runs)
    every = np.concatenate(list(systems.values()))
    low = max(float(every.min()), 1e-5)
    edges = np.geomspace(low, max(float(every.max()), 2 * low), _BINS)
    figure = style.new_figure(0.7 + 1.5 * len(systems))
    axes = figure.subplots(len(systems), 1, sharex=True, squeeze=False)[:, 0]
    rows = []
    for axis, (system, times_s) in zip(axes, systems.items(), strict=True):
        axis.hist(np.maximum(times_s, low), edges, color=looks.colour(system), alpha=0.75)
        mean, middle, high = times_s.mean(), np.median(times_s), np.percentile(times_s, 95)
        for value, dash in ((mean, "-"), (middle, style.DASHES[1]), (high, style.DASHES[2])):
            axis.axvline(value, color=style.INK, linewidth=1.0, linestyle=dash)
        told = f"mean {mean:.3g} s, median {middle:.3g} s, p95 {high:.3g} s"
        style.put_title(axis, names[system], f"{told}, longest {times_s.max():.3g} s", ": ")
        axis.set_ylabel("plans (count)")
        axis.set_xscale("log")
        trials = [plan_times_s(run).mean() for run in runs if run.system == system]
        spread = f"{min(trials):.4g} to {max(trials):.4g}" if len(trials) > 1 else ""
        cells = [f"{one:.4g}" for one in (middle, high, times_s.max())]
        counts = [str(len(trials)), str(len(times_s))]
        rows.append([names[system], *counts, f"{mean:.4g}", spread, *cells])
    axes[-1].set_xlabel("wall clock of one plan (s)")
    style.plain_log_ticks(axes[-1].xaxis)
    style.put_note(figure, runs)
    return Drawing(
        name=name,
        title=f"{TITLE}: {setting}",
        caption="All trials together. Lines: mean (solid), median (dashed), 95th percentile "
        "(dotted). Plans are the longest calls of the scheduler, one for each "
        "activation; the other calls only hand out free slots.",
        run_ids=[run.run_id for run in runs],
        figure=figure,
        table=Table(
            ["system", "trials", "plans", "mean s", "of trials", "median s", "p95 s", "longest s"],
            rows,
        ),
    )


FIGURE = Declared(draw, tables=("jobs", "latencies"))

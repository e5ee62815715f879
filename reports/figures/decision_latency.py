"""Time of a scheduler's decisions, by the number of live jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Decision latency by live jobs"
_TABLE = "latencies"
_BOUNDS = (3, 10, 30, 100, 300, 1000, 3000, 10_000)
"""Numbers of live jobs at which a new bin begins, half a power of ten apart."""
_SHOWN = {"p50": ("o", "none"), "p95": ("^", "none"), "p99": ("o", "full")}
"""Marker and its filling for each percentile."""


@dataclass(frozen=True)
class Latency:
    """Latency of the decisions of one run."""

    run: ReportRun
    live_jobs: float
    """Mean number of live jobs over the run."""
    percentiles_ms: Mapping[str, float]
    """Percentiles over all calls of the scheduler; p95 only if every call's latency was kept."""


def live_jobs(run: ReportRun) -> float | None:
    """Return the mean number of live jobs over a run, by Little's law.

    The number is the sum of the finished jobs' completion times over the makespan. The result is
    None if a metric is missing or zero.
    """
    found = [run.metrics.get(name) for name in ("jct_mean_s", "jobs_finished", "makespan_s")]
    jct_s, num_finished, makespan_s = found
    if not jct_s or not num_finished or not makespan_s:
        return None
    return jct_s * num_finished / makespan_s


def latency(run: ReportRun) -> Latency | None:
    """Return a simulated run's decisions; None for a live run or one without timed decisions.

    The workers of a live run share the machine with the scheduler.
    """
    live = live_jobs(run)
    if live is None or run.is_live:
        return None
    found = {name: run.metrics.get(f"decision_latency_{name}_ms") for name in ("p50", "p99")}
    known = {name: value for name, value in found.items() if value is not None}
    if known and _TABLE not in run.stored.left_out:
        calls_us = run.stored.rows(_TABLE)
        if calls_us:
            known["p95"] = float(np.percentile(calls_us, 95)) / 1000.0
    return Latency(run, live, known) if known else None


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure with a point for every run and percentile; its table has them by bins."""
    found = [one for one in map(latency, runs) if one is not None]
    if not found:
        reason = "No simulated run of the selection has finished jobs and timed decisions."
        return [Drawing("decision_latency", TITLE, missing=reason)]
    shown = [one.run for one in found]
    looks, names = style.Looks(run.system for run in shown), labels(shown)
    figure = style.new_figure(3.6)
    axis = figure.subplots()
    for (system,) in groups(shown, "system"):
        for name, (marker, filling) in _SHOWN.items():
            points = [
                (one.live_jobs, one.percentiles_ms[name])
                for one in found
                if one.run.system == system and one.percentiles_ms.get(name, 0.0) > 0.0
            ]
            if points:
                axis.plot(
                    *zip(*points, strict=True), marker, fillstyle=filling, markersize=4.5,
                    color=looks.colour(system), label=f"{names[system]}, {name}",
                )  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("live jobs, mean over the run (count, logarithmic)")
    axis.set_ylabel("one decision (ms, logarithmic)")
    style.plain_log_ticks(axis.xaxis)
    style.plain_log_ticks(axis.yaxis)
    style.put_note(figure, shown)
    style.put_legend(figure)
    return [
        Drawing(
            name="decision_latency",
            title=TITLE,
            caption="Live jobs have arrived and not ended; their number is a mean over the run "
            "(sum of completion times over makespan). The mean says little about runs "
            "whose jobs arrive all at once, because most of their decisions have more "
            "live jobs. A bin contains whole runs with all their decisions; the table "
            "gives the median of its runs, and the range if they differ. p95 is known "
            "for runs that kept the latency of every decision. Decisions are timed to "
            "the microsecond.",
            run_ids=[run.run_id for run in shown],
            figure=figure,
            table=Table(
                ["system, live jobs", "runs", "live jobs", *(f"{name} ms" for name in _SHOWN)],
                _rows(found, names),
            ),
        )
    ]


def _rows(found: Sequence[Latency], names: Mapping[str, str]) -> list[list[str]]:
    """Return the rows of every system's bins, ascending."""
    rows = []
    for system in sorted({one.run.system for one in found}):
        bins: dict[int, list[Latency]] = {}
        for one in found:
            if one.run.system == system:
                bins.setdefault(int(np.digitize(one.live_jobs, _BOUNDS)), []).append(one)
        for number, own in sorted(bins.items()):
            cells = [_spread([one.live_jobs for one in own], 1)]
            for name in _SHOWN:
                known = [one.percentiles_ms[name] for one in own if name in one.percentiles_ms]
                cells.append(_spread(known, 3))
            rows.append([f"{names[system]}, {_bin(number)}", str(len(own)), *cells])
    return rows


def _bin(number: int) -> str:
    if number == 0:
        return f"below {_BOUNDS[0]}"
    if number == len(_BOUNDS):
        return f"{_BOUNDS[-1]:,} and more"
    return f"{_BOUNDS[number - 1]:,} to {_BOUNDS[number]:,}"


def _spread(values: Sequence[float], digits: int) -> str:
    """Return the median, with the least and the largest value if they differ."""
    if not values:
        return ""
    middle, low, high = (f"{one:,.{digits}f}" for one in (median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


FIGURE = Declared(draw, tables=())

"""Table of all systems and their headline metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.comparison.as_recorded import recorded_rows
from harness.metrics.compute import jct_common_mean_s
from harness.metrics.statistics import estimate
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun, groups, labels

TITLE = "Comparison"
COLUMNS: Mapping[str, tuple[str, float, str]] = {
    "jobs_finished": ("finished", 1, ".0f"),
    "jobs_refused": ("refused", 1, ".0f"),
    "job_drop_ratio": ("refused, %", 100, ".1f"),
    "jobs_failed": ("failed", 1, ".0f"),
    "jobs_cancelled": ("cancelled", 1, ".0f"),
    "jct_mean_s": ("JCT mean, s", 1, ",.1f"),
    "jct_bound_mean_s": ("bound on JCT mean, s", 1, ",.1f"),
    "jct_p95_s": ("JCT p95, s", 1, ",.1f"),
    "jct_penalised_mean_s": ("JCT penalised, s", 1, ",.1f"),
    "queueing_mean_s": ("queueing, s", 1, ",.1f"),
    "makespan_s": ("makespan, s", 1, ",.1f"),
    "deadline_satisfactory_ratio": ("deadlines met, %", 100, ".1f"),
    "deadline_feasible_ratio": ("of the feasible ones, %", 100, ".1f"),
    "deadline_bound_ratio": ("bound on deadlines met, %", 100, ".1f"),
    "slot_utilization_mean": ("slots in use, %", 100, ".1f"),
    "slot_availability": ("slots up, %", 100, ".1f"),
    "cluster_efficiency_mean": ("cluster efficiency, %", 100, ".1f"),
    "sjs_efficiency": ("scaling efficiency (SJS), %", 100, ".1f"),
    "finish_time_fairness_max": ("worst fairness ρ", 1, ".2f"),
    "rescales": ("rescales", 1, ".0f"),
    "preemptions": ("preemptions", 1, ".0f"),
    "interruptions": ("interruptions", 1, ".0f"),
    "stopping_time_scale_out_mean_s": ("stopping out, s", 1, ".3f"),
    "stopping_time_scale_in_mean_s": ("stopping in, s", 1, ".3f"),
    "samples_lost_per_rescale_mean": ("samples lost per rescale", 1, ".1f"),
    "decision_latency_p99_ms": ("decision p99, ms", 1, ".2f"),
    "executed_share": ("steps executed, %", 100, ".3g"),
    "bitwise_equal": ("bitwise equal", 1, ".0f"),
    "replay_wall_s": ("wall clock, s", 1, ",.1f"),
}
"""Heading, factor and format of every column; columns that no run has are left out."""
_TELLS_AT_0 = ("jobs_finished", "bitwise_equal")
"""Columns that are shown even if they are 0 in all runs."""
MADE_UP = " †"
"""Mark of a column that depends on values not recorded in the trace."""
_ON_DEADLINES = (
    "deadline_satisfactory_ratio",
    "deadline_feasible_ratio",
    "deadline_bound_ratio",
)


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one table for each setting: means, ± half of the 95% interval from 5 trials on."""
    drawings = []
    for number, ((setting,), inside) in enumerate(groups(runs, "setting").items(), 1):
        drawings.append(
            Drawing(
                name=f"comparison-{number}",
                title=f"{TITLE}: {setting}",
                caption="Means over trials; ± is half of the 95% interval (Student's t), given"
                " from 5 trials on. A metric that does not apply is empty."
                + _two_clocks(inside)
                + _bounds(inside)
                + _made_up(inside),
                run_ids=[run.run_id for run in inside],
                table=_table(inside),
            )
        )
    return drawings or [Drawing("comparison", TITLE, missing="No run was selected.")]


def _two_clocks(runs: Sequence[ReportRun]) -> str:
    """Return a warning if stopping times are on different clocks, else ""."""
    if len({run.is_live for run in runs}) < 2:
        return ""
    return (
        " Stopping times are wall-clock seconds in live rows, and seconds of the virtual clock in "
        "simulated rows. If a live clock was slowed (engine.dilation), they are not comparable "
        "here; the figure of simulated against live converts them."
    )


def _bounds(runs: Sequence[ReportRun]) -> str:
    """Return an explanation of the bounds, if there are any, else ""."""
    if not any("jct_bound_mean_s" in run.metrics for run in runs):
        return ""
    return (
        " A bound is not a system. By the profile, no schedule of the finished jobs, or of all "
        "deadlines, can be better; perhaps no schedule can be as good."
    )


def _made_up(runs: Sequence[ReportRun]) -> str:
    """Return a sentence on the parts of the traces that were not recorded, if any, else ""."""
    fields = sorted({field for run in runs for field in run.generated})
    if not fields:
        return ""
    text = f" Not recorded in the trace, but generated: {', '.join(fields)}."
    return text + (f"{MADE_UP}: by generated deadlines." if "deadline_s" in fields else "")


def _table(runs: Sequence[ReportRun]) -> Table:
    shown = [
        metric
        for metric in COLUMNS
        if any(run.metrics.get(metric) for run in runs)
        or (metric in _TELLS_AT_0 and any(metric in run.metrics for run in runs))
    ]
    parts = groups(runs, "engine", "system")
    names = labels(runs)
    common = _common_jct(parts)
    has_made_up = any("deadline_s" in run.generated for run in runs)
    header = ["system", "engine", "trials"]
    header += [
        COLUMNS[metric][0] + (MADE_UP if has_made_up and metric in _ON_DEADLINES else "")
        for metric in shown
    ]
    if common:
        header.append("JCT mean over jobs that all finished, s")
    rows = []
    for key, trials in parts.items():
        engine = key[0] + (" (emulated pace)" if trials[0].is_emulated else "")
        cells = [names[key[1]], engine, str(len(trials))]
        cells += [_cell(trials, metric) for metric in shown]
        if common:
            cells.append(f"{common[key]:,.1f}" if key in common else "")
        rows.append(cells)
    for label, recorded in recorded_rows(run.stored for run in runs).items():
        cells = [format(recorded[m], COLUMNS[m][2]) if m in recorded else "" for m in shown]
        rows.append([label, "", "", *cells, *([""] if common else [])])
    return Table(header, rows)


def _common_jct(
    parts: Mapping[tuple[str, ...], Sequence[ReportRun]],
) -> dict[tuple[str, ...], float]:
    """Return the mean JCT over jobs that all systems of an engine finished, if any refuses jobs."""
    found: dict[tuple[str, ...], float] = {}
    for engine in {key[0] for key in parts}:
        keys = [key for key in parts if key[0] == engine]
        firsts = [parts[key][0] for key in keys]
        refusing = any(run.metrics.get("jobs_refused") for run in firsts)
        if len(firsts) > 1 and refusing and all(run.is_drawable for run in firsts):
            means = jct_common_mean_s([run.jobs for run in firsts])
            found |= dict(zip(keys, means, strict=True)) if means else {}
    return found


def _cell(trials: Sequence[ReportRun], metric: str) -> str:
    _, factor, form = COLUMNS[metric]
    values = [factor * run.metrics[metric] for run in trials if metric in run.metrics]
    if not values:
        return ""
    mean = estimate(values)
    text = format(mean.mean, form)
    return text if mean.half_width is None else f"{text} ±{mean.half_width:{form}}"


FIGURE = Declared(draw, tables=(), general_place=0, is_always_drawn=True)

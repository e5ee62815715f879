"""Time until the survivors of a fault continue training, by the struck worker's activity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from harness.contracts.marks import WorkerPhase
from harness.metrics.statistics import percentile_interval
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.drawing.text import interval_text
from reports.figures.declared import Declared
from reports.measures.recoveries import HANG_S, RANDOM, Recovery, recoveries
from reports.runs.selection import ReportRun

TITLE = "Recovery from faults"
_UNMARKED = {
    "steady": "no mark:\nsteady",
    "change": "no mark:\nin a change",
    "joiner": "no mark:\njoining",
}
_PHASES = {
    "forward": "forward",
    "backward": "backward",
    "reduce": "reduce",
    "update": "update",
    "between": "between\nsteps",
    "save": "save",
    "switch": "switch",
    "prepare": "joining:\nprepare",
    "copy": "joining:\ncopy",
    "recover": "recover",
    "leave": "leave",
    **_UNMARKED,
}
"""Phases in the order of the figure, by names of ``WorkerPhase`` or of the job's activity."""
assert {doing.name.lower() for doing in WorkerPhase} - {"start"} <= _PHASES.keys()
_ROLES = {"leader": "led", "first worker": "was_first"}
TARGET_MS = 100.0
_LEAST_MS = 1.0
"""Shorter times are drawn at this time."""
_HEADER = ["died in: workload, system", "n", "continued", "p50 ms", "95% interval", "p95 ms",
           "worst ms"]  # fmt: skip


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return a figure for each signal, a panel for each workload, then a table of the outcomes."""
    found = recoveries(run for run in runs if run.is_live)
    if not found:
        reason = "No live run of the selection had faults (engine=live_faults)."
        return [Drawing("recovery-time", TITLE, missing=reason)]
    drawings = []
    for number, signal in enumerate(sorted({one.fault.signal for one in found}), 1):
        own = [one for one in found if one.fault.signal == signal]
        drawings.append(_chart(f"recovery-time-{number}", signal, own, runs))
    return [*drawings, _outcomes(found, runs)]


def _chart(name: str, signal: str, found: Sequence[Recovery], runs: Sequence[ReportRun]) -> Drawing:
    workloads = sorted({one.workload for one in found})
    systems = sorted({one.system for one in found})
    phases = [phase for phase in _PHASES if any(one.phase == phase for one in found)]
    looks = style.Looks(systems)
    figure = style.new_figure(0.6 + 2.1 * len(workloads))
    axes = figure.subplots(len(workloads), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axis, workload in zip(axes, workloads, strict=True):
        own = [one for one in found if one.workload == workload]
        _panel(axis, own, phases, systems, looks)
        axis.set_title(f"{workload} (n = {len(own)})", fontsize=8.5)
        axis.set_ylabel("time to the next step\nbeyond a usual one (ms)")
    axes[-1].set_xlabel("activity of the worker (phase)")
    axes[0].set_ylim(bottom=0.35 * _LEAST_MS)  # room for the counts
    for axis in axes:
        style.plain_log_ticks(axis.yaxis)
    handles, labels = axes[0].get_legend_handles_labels()
    for axis in axes[1:]:
        more = zip(*axis.get_legend_handles_labels(), strict=True)
        new = [(handle, label) for handle, label in more if label not in labels]
        handles += [handle for handle, _ in new]
        labels += [label for _, label in new]
    figure.legend(handles, labels, loc="outside upper left", ncols=3)
    rows = _rows(found, phases, workloads, systems)
    ids = {one.run_id for one in found}
    own_runs = [run for run in runs if run.run_id in ids]
    counts = [int(row[1]) for row in rows]
    style.put_count_note(figure, counts, own_runs)
    what = "killed (SIGKILL)" if signal == "SIGKILL" else "stopped, so that it hangs (SIGSTOP)"
    return Drawing(
        name=name,
        title=f"{TITLE}: a worker is {what}",
        caption="Time from the signal to the end of the next step committed without the struck "
        "worker, minus a usual step. Each dot is one fault, bars are medians, lines go "
        "from the 5th to the 95th percentile, and small numbers count the faults. The "
        "dotted line is 100 ms; times below 1 ms are drawn at 1 ms. The phase is the "
        "last phase that the worker marked, even if another phase was aimed at. A worker "
        "is spared if only it has the state. Of two deaths in one recovery, only the "
        "second counts.",
        run_ids=[run.run_id for run in own_runs],
        figure=figure,
        table=Table(_HEADER, rows),
    )


def _panel(
    axis: Axes,
    found: Sequence[Recovery],
    phases: Sequence[str],
    systems: Sequence[str],
    looks: style.Looks,
) -> None:
    axis.set_yscale("log")
    axis.axhline(TARGET_MS, color=style.MUTED, linewidth=0.9, linestyle=":")
    width = 0.8 / len(systems)
    for index, system in enumerate(systems):
        label = system
        for place, phase in enumerate(phases):
            own = [one for one in found if (one.system, one.phase) == (system, phase)]
            times = np.maximum(_times_ms(own), _LEAST_MS)
            if not len(times):
                continue
            middle = place - 0.4 + width * (index + 0.5)
            spread = np.linspace(-0.3 * width, 0.3 * width, len(times))
            colour = looks.colour(system)
            axis.plot(middle + spread, times, ".", color=colour, alpha=0.45, markersize=4)
            low, high = np.percentile(times, [5, 95])
            axis.vlines(middle, low, high, color=colour, linewidth=1.2)
            axis.hlines(
                np.median(times),
                middle - 0.38 * width,
                middle + 0.38 * width,
                color=colour,
                linewidth=2.4,
                label=label,
            )
            label = "_"  # not in the legend again
            axis.annotate(
                str(len(times)),
                (middle, 0.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=style.SMALL_PT,
                color=colour,
            )
    axis.set_xticks(range(len(phases)), [_PHASES[phase] for phase in phases])
    axis.set_xlim(-0.6, len(phases) - 0.4)
    axis.grid(visible=False, axis="x")


def _rows(
    found: Sequence[Recovery],
    phases: Sequence[str],
    workloads: Sequence[str],
    systems: Sequence[str],
) -> list[list[str]]:
    """Return a row for every phase and role, for each workload under each system."""
    rows = []
    for system in systems:
        for workload in workloads:
            cell = [one for one in found if (one.workload, one.system) == (workload, system)]
            groups = {p: [one for one in cell if one.phase == p] for p in phases}
            groups |= {r: [o for o in cell if getattr(o.fault, f)] for r, f in _ROLES.items()}
            groups["all"] = cell
            name = f"{workload}, {system}"
            rows += [_row(f"{group}: {name}", own) for group, own in groups.items() if own]
    return rows


def _row(name: str, own: Sequence[Recovery]) -> list[str]:
    times = _times_ms(own)
    cells = [name, str(len(own)), str(len(times))]
    if not times:
        return [*cells, "", "", "", ""]
    middle = percentile_interval(times)
    return [
        *cells,
        f"{middle.value:.3g}",
        interval_text(middle, ".3g"),
        f"{np.percentile(times, 95):.3g}",
        f"{max(times):.3g}",
    ]


def _times_ms(found: Sequence[Recovery]) -> list[float]:
    return [1000 * one.recovery_s for one in found if one.recovery_s is not None]


def _outcomes(found: Sequence[Recovery], runs: Sequence[ReportRun]) -> Drawing:
    """Return a table of the jobs' outcomes, and of workers that crashed without a fault."""
    ids = {one.run_id for one in found}
    own_runs = [run for run in runs if run.run_id in ids]
    names = {one.run_id: f"{one.workload}, {one.system}" for one in found}
    rows = []
    for name in sorted(set(names.values())):
        chosen = [run for run in own_runs if names[run.run_id] == name]
        own = [one for one in found if names[one.run_id] == name]
        aimed = [one for one in own if one.fault.aimed_at != RANDOM]
        hit = [one for one in aimed if one.fault.aimed_at == one.fault.struck_in]
        facts = [run.stored.facts for run in chosen]
        missed, crashed, lost = (
            str(int(sum(fact.get(key, 0.0) for fact in facts)))
            for key in ("faults_missed", "workers_crashed", "jobs_lost")
        )
        unfinished = sum(job.state != "finished" for run in chosen for job in run.jobs)
        hangs = sum(one.is_hang for one in own)
        hits = f"{len(hit)} of {len(aimed)}"
        counts = (str(hangs), crashed, lost, str(unfinished))
        rows.append([name, str(len(chosen)), str(len(own)), hits, missed, *counts])
    return Drawing(
        name="recovery-outcomes",
        title="Outcomes of jobs whose workers died",
        caption=f"Hangs: faults after which no step was committed for {HANG_S:g} s. Crashes: "
        "workers that ended with an error without having been struck. Lost: times that no worker "
        "could continue and the job resumed from its last checkpoint; backends that stop their "
        "workers always recover in this way. Missed: faults whose phase did not come in time or "
        "in its change, so no worker was struck.",
        run_ids=[run.run_id for run in own_runs],
        table=Table(
            ["workload, system", "runs", "faults", "in the phase aimed at", "missed", "hangs",
             "crashes", "lost", "jobs not finished"],
            rows,
        ),
    )  # fmt: skip


FIGURE = Declared(draw)

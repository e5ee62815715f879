"""How long until the survivors of a fault train on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.statistics import percentile_interval
from reports import style
from reports.drawing import Drawing, Table
from reports.figures.rescale_cost import interval_text
from reports.recoveries import Recovery, recoveries
from reports.selection import ReportRun

TITLE = "Recovery from faults"
_PHASES = {
    "steady": "while nothing changes",
    "change": "an old worker, during a change",
    "joiner": "a worker that joins",
}
_LEAST_MS = 0.1


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """One figure per signal: cumulative distributions, a panel for each phase."""
    found = recoveries(run for run in runs if run.is_live)
    drawings = []
    for number, signal in enumerate(sorted({one.fault.signal for one in found}), 1):
        own = [one for one in found if one.fault.signal == signal]
        drawings.append(_chart(f"recovery-time-{number}", signal, own, runs))
    reason = "No live run of the selection had faults (engine=live_faults)."
    return drawings or [Drawing("recovery-time", TITLE, missing=reason)]


def _chart(name: str, signal: str, found: Sequence[Recovery], runs: Sequence[ReportRun]) -> Drawing:
    systems = sorted({one.system for one in found})
    phases = [phase for phase in _PHASES if any(one.fault.phase == phase for one in found)]
    looks = style.Looks(systems)
    figure = style.new_figure(2.9)
    axes = figure.subplots(1, len(phases), sharex=True, sharey=True, squeeze=False)[0]
    named: set[str] = set()
    rows = []
    for axis, phase in zip(axes, phases, strict=True):
        counts = []
        for system in systems:
            own = [one for one in found if (one.system, one.fault.phase) == (system, phase)]
            times = [1000 * one.recovery_s for one in own if one.recovery_s is not None]
            if times:
                label = None if system in named else system
                axis.ecdf(np.maximum(times, _LEAST_MS), label=label, **looks.line(system))
                named.add(system)
            if own:
                counts.append(len(own))
                rows.append(_row(phase, system, own, times))
        axis.set_title(f"{_PHASES[phase]} (n = {sum(counts)})", fontsize=8.5)
        axis.set_xscale("log")
        axis.set_xlabel("time to the next step beyond a usual one (ms)")
        axis.set_ylabel("faults recovered by then (share)")
        axis.label_outer()
    for axis in axes:
        style.plain_log_ticks(axis.xaxis)
    figure.legend(loc="outside upper left", ncols=3)
    ids = {one.run_id for one in found}
    own_runs = [run for run in runs if run.run_id in ids]
    style.put_count_note(figure, [int(row[1]) for row in rows], own_runs)
    what = "killed (SIGKILL)" if signal == "SIGKILL" else "stopped, so that it hangs (SIGSTOP)"
    return Drawing(
        name=name,
        title=f"{TITLE}: a worker is {what}",
        caption="From the signal to the end of the next step that was committed without the"
        " struck worker, less a usual step. Faults come at random moments; a worker that is"
        " the last of its job is spared.",
        run_ids=[run.run_id for run in own_runs],
        figure=figure,
        table=Table(
            ["phase: system", "faults", "went on", "p50 ms", "95% interval", "p95 ms", "worst ms"],
            rows,
        ),
    )


def _row(phase: str, system: str, own: Sequence[Recovery], times: list[float]) -> list[str]:
    cells = [f"{phase}: {system}", str(len(own)), str(len(times))]
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

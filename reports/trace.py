"""``python -m reports.trace NAME_OR_FILE``: draw a trace as a figure, before it is run.

The figure shows arrivals, the slots in use if no job ever waited, the slots that jobs ask for, and
how long jobs last.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.cluster import Cluster
from harness.errors import UserError
from harness.machine.interrupts import run_command
from harness.metrics.columns import Floats
from harness.trace.commands.catalog import names, open_cluster, open_profile, open_trace
from harness.trace.commands.generate import seed
from harness.trace.commands.show import number, percentile
from harness.trace.model.events import TraceEventKind
from harness.trace.model.trace import Trace
from harness.trace.transforms import TransformContext
from reports.drawing import letters, style

FORMATS = (".svg", ".png", ".pdf")
_BINS = 60
_POINTS = 1_500
_NOTE_WIDTH = 150
"""Characters of a line below the figure."""
_ROOM = 1.22
"""Height of an axis over its highest value, to leave room for a legend."""


def draw(trace: Trace, cluster: Cluster | None = None) -> Figure:
    """Return a figure with the four panels of a trace; call it under ``style.RC``.

    Args:
        trace: trace to draw.
        cluster: its slots are drawn as a line, which falls while slots are down.
    """
    figure = style.new_figure(5.6)
    panels = figure.subplots(2, 2)
    jobs = trace.jobs
    arrivals = np.array([job.arrival_s for job in jobs])
    slots = np.array([job.requested_slots for job in jobs])
    known = np.array([job.duration_s is not None for job in jobs])
    durations = np.array([job.duration_s or 0.0 for job in jobs])
    _arrivals(panels[0, 0], arrivals)
    _in_use(panels[0, 1], arrivals[known], durations[known], slots[known], trace, cluster)
    _demand(panels[1, 0], slots, (durations * slots) if known.all() else None)
    _durations(panels[1, 1], durations[known])
    days, unit = style.time_unit(float(trace.span_s))
    figure.suptitle(
        f"{trace.name}: {len(jobs):,} jobs over {trace.span_s / days:,.1f} {unit}",
        x=0.01,
        ha="left",
        fontsize=11,
        fontweight="bold",
    )
    made_up = f"; not recorded: {', '.join(sorted(trace.generated))}" if trace.generated else ""
    figure.supxlabel(
        textwrap.fill(f"{trace.source}; {trace.licence}{made_up}", _NOTE_WIDTH),
        fontsize=style.SMALL_PT,
        color=style.MUTED,
        x=0.995,
        ha="right",
    )
    return figure


def _arrivals(axis: Axes, arrivals: Floats) -> None:
    end_s = float(arrivals[-1]) or 1.0
    seconds, unit = style.time_unit(end_s)
    counts, edges = np.histogram(arrivals, bins=_BINS, range=(0.0, end_s))
    axis.stairs(counts, edges / seconds, fill=True, color=style.PALETTE[0])
    axis.set_title("Arrivals")
    axis.set_xlabel(f"time ({unit})")
    axis.set_ylabel(f"jobs in {(edges[1] - edges[0]) / seconds:.2g} {unit}")
    axis.set_xlim(0, end_s / seconds)


def _in_use(
    axis: Axes,
    arrivals: Floats,
    durations: Floats,
    slots: Floats,
    trace: Trace,
    cluster: Cluster | None,
) -> None:
    axis.set_title("Slots in use if no job waited")
    if not len(arrivals):
        axis.text(0.5, 0.5, "durations are not known", ha="center", transform=axis.transAxes)
        axis.set_axis_off()
        return
    times, in_use = _steps(
        np.concatenate([arrivals, arrivals + durations]), np.concatenate([slots, -slots])
    )
    seconds, unit = style.time_unit(float(times[-1]))
    kept = slice(None, None, max(1, len(times) // _POINTS))
    axis.step(times[kept] / seconds, in_use[kept], where="post", color=style.PALETTE[0])
    axis.set_xlabel(f"time ({unit})")
    axis.set_ylabel("slots")
    axis.set_ylim(bottom=0)
    axis.set_xlim(0, float(times[-1]) / seconds)
    if cluster is None:
        return
    changes = [
        (event.time_s, len(event.slots) * (1 if event.kind is TraceEventKind.SLOTS_UP else -1))
        for event in trace.events
        if event.slots
    ]
    up_s, up = [0.0], [float(cluster.num_slots)]
    if changes:
        at, change = (np.array(column) for column in zip(*changes, strict=True))
        moments, difference = _steps(at, change)
        up_s += moments.tolist()
        up += (cluster.num_slots + difference).tolist()
    axis.step(
        [*(moment / seconds for moment in up_s), float(times[-1]) / seconds],
        [*up, up[-1]],
        where="post",
        color=style.PALETTE[1],
        linewidth=1.2,
        label=f"slots of {cluster.name}" + (" that are up" if changes else ""),
    )
    axis.set_ylim(top=_ROOM * max(float(in_use.max()), cluster.num_slots))
    axis.legend(loc="upper right")


def _steps(times: Floats, changes: Floats) -> tuple[Floats, Floats]:
    """Return the times at which a sum of changes varies, and its values from then on."""
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(changes[order])


def _demand(axis: Axes, slots: Floats, slot_s: Floats | None) -> None:
    """Draw the shares of jobs and slot-hours by slots asked for, in ranges that double."""
    powers = np.ceil(np.log2(slots)).astype(int)
    labels = [
        str(2**power) if power < 2 else f"{2 ** (power - 1) + 1}-{2**power}"
        for power in range(int(powers.max()) + 1)
    ]
    places = np.arange(len(labels))
    bars = [("jobs", np.bincount(powers) / len(slots))]
    if slot_s is not None and slot_s.sum() > 0:
        bars.append(("slot-hours", np.bincount(powers, weights=slot_s) / slot_s.sum()))
    width = 0.8 / len(bars)
    for index, (label, shares) in enumerate(bars):
        left = places + (index - (len(bars) - 1) / 2) * width
        axis.bar(left, 100 * shares, width, label=label, color=style.PALETTE[index])
    axis.set_xticks(places, labels, rotation=0 if len(labels) < 8 else 40)
    axis.set_title("Demand")
    axis.set_xlabel("slots asked for")
    axis.set_ylabel("share (%)")
    axis.set_yticks(range(0, 101, 20))
    axis.set_ylim(top=_ROOM * 100 * max(float(shares.max()) for _, shares in bars))
    axis.legend(loc="upper right", ncols=len(bars))


def _durations(axis: Axes, durations: Floats) -> None:
    axis.set_title("Durations")
    if not len(durations):
        axis.text(0.5, 0.5, "durations are not known", ha="center", transform=axis.transAxes)
        axis.set_axis_off()
        return
    seconds, unit = style.time_unit(float(np.median(durations)))
    values = np.sort(durations) / seconds
    share = 100 * np.arange(1, len(values) + 1) / len(values)
    kept = slice(None, None, max(1, len(values) // _POINTS))
    axis.step(values[kept], share[kept], where="post", color=style.PALETTE[0])
    for percent in (50, 90):
        at = percentile(values, percent)
        axis.plot([at], [percent], "o", markersize=4, color=style.PALETTE[1])
        axis.annotate(f"{number(at)} {unit}", (at, percent), (6, -10), textcoords="offset points")
    if values[0] > 0 and values[-1] > 50 * np.median(values):
        axis.set_xscale("log")
    axis.set_xlabel(f"duration on the slots asked for ({unit})")
    axis.set_ylabel("jobs that last no longer (%)")
    axis.set_ylim(0, 102)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw one trace into a file and return the exit code, 2 on a mistake of the user's."""
    chosen = _parser().parse_args(arguments)
    out: Path = chosen.out or Path(f"{Path(chosen.trace).stem}.svg")
    if out.suffix not in FORMATS:
        print(f"--out: {out} ends in no format; known: {', '.join(FORMATS)}", file=sys.stderr)
        return 2
    try:
        cluster = open_cluster(chosen.cluster) if chosen.cluster else None
        profile = open_profile(chosen.profile) if chosen.profile else None
        opened = open_trace(chosen.trace)
        opened = replace(opened, transforms=()) if chosen.raw else opened
        trace = opened.load(TransformContext(chosen.seed, profile, cluster))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    out.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(style.RC):
        figure = draw(trace, cluster)
        letters.prepare([figure])
        figure.savefig(out)
    print(out)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reports.trace",
        description="Draw a trace: arrivals, slots in use, demand, durations.",
        epilog=f"Shipped traces: {', '.join(names('trace'))}",
    )
    parser.add_argument("trace", metavar="NAME_OR_FILE", help="as for python -m harness.trace show")
    parser.add_argument("--cluster", metavar="NAME", help="its slots are drawn as a line")
    parser.add_argument(
        "--profile", metavar="NAME", help="throughputs, for traces whose work is recomputed"
    )
    parser.add_argument(
        "--seed", type=seed, default=0, help="seed of transforms that draw numbers (0)"
    )
    parser.add_argument(
        "--raw", action="store_true", help="draw the file alone, without transforms"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="svg, png or pdf (default: the trace's name.svg)"
    )
    return parser


if __name__ == "__main__":
    run_command(main)

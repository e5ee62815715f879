"""Summary of a trace as text: counts, load, percentiles and bars.

A gap is the time between two arrivals; percentile p is the element floor(n x p / 100) of the sorted
list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from harness.cluster import Cluster
from harness.trace.model.trace import Trace
from harness.trace.parsing.table import Floats

_BINS = 24
_WIDTH = 40
_PERCENTILES = (5, 50, 90, 99)
_DURATION_EDGES_S = (60, 600, 3600, 6 * 3600, 86400, 7 * 86400)
_DURATION_LABELS = (
    "under 1 min",
    "1-10 min",
    "10-60 min",
    "1-6 h",
    "6-24 h",
    "1-7 d",
    "7 d and more",
)


def facts(trace: Trace, cluster: Cluster | None = None) -> dict[str, str]:
    """Return the facts of a trace by name, one line each.

    ``slots busy`` is slot-hours over the span: the mean slots in use if no job ever waited.
    ``load`` is that over the cluster's slots.
    """
    jobs = trace.jobs
    deadlines = [job for job in jobs if job.deadline_s is not None]
    known = [job for job in jobs if job.duration_s is not None]
    slot_s = sum((job.duration_s or 0.0) * job.requested_slots for job in known)
    found = {
        "source": trace.source,
        "licence": trace.licence,
        "jobs": f"{len(jobs):,}",
        "span": f"{trace.span_s:,.0f} s = {trace.span_s / 3600:,.1f} h",
        "slot-hours": (
            f"{slot_s / 3600:,.0f}"
            if len(known) == len(jobs)
            else "unknown (jobs without duration)"
        ),
    }
    if trace.span_s > 0 and len(known) == len(jobs):
        busy = slot_s / trace.span_s
        found["slots busy"] = f"{busy:,.1f}"
        if cluster is not None:
            found["load"] = f"{busy / cluster.num_slots:.2f} of {cluster.name}"
    if deadlines:
        early = sum(
            (job.deadline_s or 0.0) < job.arrival_s + (job.duration_s or 0.0) for job in deadlines
        )
        found["deadlines"] = f"{len(deadlines):,}, {early:,} before arrival + duration"
    found["workloads"] = ", ".join(
        f"{name} {count:,}" for name, count in _most(Counter(job.workload for job in jobs))
    )
    owners = Counter(job.owner for job in jobs if job.owner)
    if owners:
        found["owners"] = ", ".join(f"{name} {count:,}" for name, count in _most(owners))
    if trace.generated:
        found["not recorded"] = ", ".join(sorted(trace.generated))
    for number, note in enumerate(trace.history, 1):
        found[f"step {number}"] = note
    found["digest"] = trace.digest
    return found


def show(trace: Trace, console: Console, cluster: Cluster | None = None) -> None:
    """Print the facts, the percentiles and the bars of a trace."""
    console.print(trace.name, style="bold")
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts(trace, cluster).items():
        table.add_row(name, text)
    console.print(table)
    arrivals = np.array([job.arrival_s for job in trace.jobs])
    slots = np.array([job.requested_slots for job in trace.jobs])
    durations = np.array([job.duration_s for job in trace.jobs if job.duration_s is not None])
    console.print(_percentiles(slots, durations, np.diff(arrivals)))
    _bars(console, "Arrivals", *_arrivals(arrivals))
    _bars(console, "Slots asked for", *_demand(slots))
    if len(durations):
        _bars(console, "Durations", *_durations(durations))


def _most(counts: Counter[str], shown: int = 8) -> list[tuple[str, int]]:
    """Return the most frequent names, ties by name, and all others as one entry."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = ordered[shown:]
    return ordered[:shown] + ([(f"{len(rest)} more", sum(n for _, n in rest))] if rest else [])


def _percentiles(slots: Floats, durations: Floats, gaps: Floats) -> Table:
    table = Table(title=None)
    table.add_column("")
    for name in ("min", *(f"p{p}" for p in _PERCENTILES), "max", "mean"):
        table.add_column(name, justify="right")
    for name, values in (
        ("slots", slots),
        ("duration, s", durations),
        ("gap, s", gaps),
    ):
        if len(values):
            ranked = np.sort(values)
            picked = [percentile(ranked, p) for p in _PERCENTILES]
            cells = [ranked[0], *picked, ranked[-1], ranked.mean()]
            table.add_row(name, *(number(float(cell)) for cell in cells))
    return table


def percentile(ranked: Floats, percent: int) -> float:
    """Return element floor(n x percent / 100) of the sorted values, which is always a recorded
    value."""
    return float(ranked[len(ranked) * percent // 100])


def number(value: float) -> str:
    """Return a number as text, with fewer decimals the larger it is."""
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:,.2f}"


def _arrivals(arrivals: Floats) -> tuple[list[str], list[int]]:
    end = float(arrivals[-1]) or 1.0
    counts, edges = np.histogram(arrivals, bins=_BINS, range=(0.0, end))
    unit, name = (3600.0, "h") if end < 4 * 86400 else (86400.0, "d")
    if end < 2 * 3600:
        unit, name = 60.0, "min"
    return [f"from {edge / unit:,.1f} {name}" for edge in edges[:-1]], counts.tolist()


def _demand(slots: Floats) -> tuple[list[str], list[int]]:
    """Return counts by demand, in ranges that double: 1, 2, 3-4, 5-8, ..."""
    powers = np.ceil(np.log2(slots)).astype(int)
    counts = np.bincount(powers).tolist()
    labels = [
        str(2**power) if power < 2 else f"{2 ** (power - 1) + 1}-{2**power}"
        for power in range(len(counts))
    ]
    return labels, counts


def _durations(durations: Floats) -> tuple[list[str], list[int]]:
    places = np.searchsorted(_DURATION_EDGES_S, durations, side="right")
    return list(_DURATION_LABELS), np.bincount(places, minlength=len(_DURATION_LABELS)).tolist()


def _bars(console: Console, title: str, labels: Sequence[str], counts: Sequence[int]) -> None:
    """Print one line for each label, with a bar proportional to its count."""
    mark = "█" if console.encoding.lower().startswith("utf") else "#"
    most = max(counts)
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    table.add_column(justify="right")
    for label, count in zip(labels, counts, strict=True):
        length = max(1, round(_WIDTH * count / most)) if count else 0
        table.add_row(label, f"{count:,}", mark * length)
    console.print(f"\n{title}", style="bold")
    console.print(table)

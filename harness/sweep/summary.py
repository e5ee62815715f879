"""Terminal output: plans, progress of a sweep, results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from harness.answer.answer import answer
from harness.results.records import FixedSizeRecord
from harness.results.store import StoredRun

HEADLINES = (
    ("jobs_finished", "finished", "{:.0f}"),
    ("jobs_cancelled", "cancelled", "{:.0f}"),
    ("jct_mean_s", "JCT mean s", "{:,.1f}"),
    ("jct_p95_s", "JCT p95 s", "{:,.1f}"),
    ("makespan_s", "makespan s", "{:,.1f}"),
    ("queueing_mean_s", "queue s", "{:,.1f}"),
    ("slot_utilization_mean", "slots used", "{:.1%}"),
    ("deadline_satisfactory_ratio", "deadlines", "{:.1%}"),
    ("rescales", "rescales", "{:.0f}"),
    ("preemptions", "preempt.", "{:.0f}"),
    ("interruptions", "interrupt.", "{:.0f}"),
    ("stopping_time_scale_out_mean_s", "stop out s", "{:.3f}"),
    ("executed_share", "executed", "{:.2%}"),
    ("bitwise_equal", "bitwise", "{:.0f}"),
    ("replay_wall_s", "wall s", "{:.1f}"),
)
"""Metrics shown in tables: name, heading, format. Columns that no run has are left out."""
_RARE = frozenset({"jobs_cancelled", "interruptions"})
"""Metrics whose columns are also left out if they are 0 in all runs."""


def metrics_table(
    rows: Sequence[tuple[Mapping[str, str], str, Mapping[str, float]]],
    recorded: Mapping[str, Mapping[str, float]] | None = None,
) -> Table:
    """Return a table with a row per point: its axes, its status, its headline metrics.

    Args:
        rows: axes (name and value), status, metrics; empty metrics if there are none.
        recorded: rows of outcomes that traces recorded, by label, shown last.
    """
    axes = _telling_axes([row[0] for row in rows])
    shown = [
        (name, heading, form)
        for name, heading, form in HEADLINES
        if any(metrics.get(name, 0.0) if name in _RARE else name in metrics for *_, metrics in rows)
    ]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for axis in axes:
        table.add_column(axis, no_wrap=True)
    table.add_column("status", no_wrap=True)
    for _, heading, _ in shown:
        table.add_column(heading, justify="right")
    for values, status, metrics in rows:
        cells = [form.format(metrics[name]) if name in metrics else "" for name, _, form in shown]
        table.add_row(*(values.get(axis, "") for axis in axes), status, *cells)
    for label, metrics in (recorded or {}).items():
        cells = [form.format(metrics[name]) if name in metrics else "" for name, _, form in shown]
        table.add_row(label, *[""] * len(axes), *cells)
    return table


def show_answer(out: Console, runs: Sequence[StoredRun], label: str = "") -> None:
    """Print what came out of some runs: sentences, one sorted table, and how it was made.

    Args:
        out: console.
        runs: runs of one command; nothing is printed without any.
        label: title, if there are several answers.
    """
    block = answer(runs)
    if block is None:
        return
    out.print(f"\n{label}" if label else "", style="bold")
    for sentence in block.sentences:
        out.print(sentence)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for at, heading in enumerate(block.header):
        table.add_column(heading, justify="right" if at else "left", overflow="fold")
    for row in block.rows:
        table.add_row(*row)
    out.print(table)
    if block.note:
        out.print(block.note, style="dim")


def _telling_axes(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the axes that distinguish the rows; axes that only repeat others are left out."""
    axes = list(dict.fromkeys(axis for row in rows for axis in row))
    for axis in reversed(axes):
        rest = [other for other in axes if other != axis]
        if rest and len({tuple(row.get(a) for a in rest) for row in rows}) == len(rows):
            axes = rest
    return axes


def executed_line(facts: Iterable[Mapping[str, float]]) -> str | None:
    """Return a line with the share of steps really executed, in total and per workload, over live
    runs.

    None: there is no live run.
    """
    executed = credited = 0.0
    workloads: dict[str, list[float]] = {}
    for run in facts:
        for name in sorted(run):
            if name.startswith("steps_executed_"):
                workload = name.removeprefix("steps_executed_")
                counts = workloads.setdefault(workload, [0.0, 0.0])
                counts[0] += run[name]
                counts[1] += run.get(f"rescales_{workload}", 0.0)
        executed += run.get("steps_executed", 0.0)
        credited += run.get("steps_credited", 0.0)
    total = executed + credited
    if not total:
        return None
    each = ", ".join(
        f"{name} {steps:,.0f} steps and {rescales:,.0f} rescales"
        for name, (steps, rescales) in sorted(workloads.items())
    )
    return (
        f"Really executed: {executed:,.0f} of {total:,.0f} training steps"
        f" ({executed / total:.2%}); the others were credited by fast-forward.\n"
        f"Trained by real worker processes: {each}."
    )


def fixed_size_lines(rows: Sequence[FixedSizeRecord]) -> list[str]:
    """Return how many jobs ended with the bits of their fixed-size reference, and how the others
    differ.

    The result is empty if the jobs were not checked.
    """
    if not rows:
        return []
    num_equal = sum(row.is_equal for row in rows)
    head = f"Bitwise equal to training on fixed workers: {num_equal} of {len(rows)} finished jobs."
    return [head, *(f"  {_difference(row)}" for row in rows if not row.is_equal)]


def _difference(row: FixedSizeRecord) -> str:
    losses = (
        f"losses do from step {row.equal_steps + 1} on"
        if row.equal_steps < row.num_steps
        else "no loss does"
    )
    names = ", ".join(row.different.split()) or "losses, but no digest,"
    return (
        f"{row.job_id}: after {row.num_steps} steps {names} differ from {row.num_workers} fixed"
        f" workers (reference {row.reference}); {losses}"
    )

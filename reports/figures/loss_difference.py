"""Difference between the loss of a job whose slots change and that of fixed workers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from harness.results.records import FixedLossRecord
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures.declared import Declared
from reports.runs.selection import ReportRun

TITLE = "Loss compared with fixed workers"
_LEAST = 1e-8
"""Smallest end of the linear part of the axis; smaller differences count as zero."""
_DEFAULT = "D1"
"""Determinism level of a run whose configuration does not give a level."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One job's losses compared with those of fixed workers, step by step."""

    run_id: str
    workload: str
    level: str
    """Determinism level (D0, D1 or D2)."""
    steps: tuple[int, ...]
    slots: tuple[int, ...]
    differences: tuple[float, ...]
    """Loss of the job minus that of fixed workers, for the last worker in each step."""

    @property
    def stages(self) -> list[tuple[int, range]]:
        """Number of slots of each stage, and the stage's positions in ``steps``."""
        begins = [i for i, n in enumerate(self.slots) if i == 0 or n != self.slots[i - 1]]
        ends = [*begins[1:], len(self.slots)]
        return [(self.slots[b], range(b, e)) for b, e in zip(begins, ends, strict=True)]


def curves(runs: Sequence[ReportRun]) -> list[Curve]:
    """Return the curves of all jobs compared with fixed workers (``engine.check_reference``)."""
    found = []
    for run in runs:
        rows: dict[str, list[FixedLossRecord]] = {}
        for row in run.stored.rows("fixed_losses"):
            rows.setdefault(row.job_id, []).append(row)
        level = str(run.stored.config.get("backend", {}).get("level", _DEFAULT))
        for job_id, own in rows.items():
            own.sort(key=lambda row: row.step)
            found.append(
                Curve(
                    run_id=run.run_id,
                    workload=run.workloads[job_id],
                    level={"D2": "D1+D2"}.get(level, level),
                    steps=tuple(row.step for row in own),
                    slots=tuple(row.num_slots for row in own),
                    differences=tuple(
                        float.fromhex(row.loss_hex) - float.fromhex(row.fixed_hex) for row in own
                    ),
                )
            )
    return found


def draw(runs: Sequence[ReportRun]) -> list[Drawing]:
    """Return one figure: a column for each workload, with levels D0 and D1 above, and D2 below."""
    found = curves(runs)
    if not found:
        reason = (
            "No job of the selection was compared with fixed workers (engine.check_reference=true)."
        )
        return [Drawing("loss-difference", TITLE, missing=reason)]
    workloads = sorted({curve.workload for curve in found})
    levels = sorted({curve.level for curve in found})
    kinds = [kind for kind in (False, True) if any(("D2" in x) == kind for x in levels)]
    looks = style.Looks(levels)
    figure = style.new_figure(0.9 + 1.9 * len(kinds))
    axes = figure.subplots(len(kinds), len(workloads), sharex="col", sharey="col", squeeze=False)
    for line, has_d2 in enumerate(kinds):
        for column, workload in enumerate(workloads):
            axis = axes[line][column]
            own = [c for c in found if c.workload == workload and ("D2" in c.level) == has_d2]
            for curve in sorted(own, key=lambda c: c.level):
                axis.plot(
                    curve.steps,
                    curve.differences,
                    label=curve.level,
                    linewidth=1.5,
                    **looks.line(curve.level),
                )
            _scale(axis, [c for c in found if c.workload == workload])
            _mark_stages(axis, own)
            if line == 0:
                axis.set_title(workload)
            if column == 0:
                axis.set_ylabel("loss difference")
            axis.legend(loc="lower left", ncols=2)
    for axis in axes[-1]:
        axis.set_xlabel("step (number)")
    shown = [run for run in runs if run.run_id in {curve.run_id for curve in found}]
    style.put_note(figure, shown)
    return [
        Drawing(
            name="loss-difference",
            title=TITLE,
            caption="Training loss of a job's last logical worker minus that of the same worker "
            "of stock DistributedDataParallel on as many fixed workers; at 0 both are equal to "
            "the last bit. Vertical lines: the job's slots change to the number next to the "
            "line. The scale is linear near 0 and logarithmic beyond.",
            run_ids=sorted({curve.run_id for curve in found}),
            figure=figure,
            table=_table(found),
        )
    ]


def _scale(axis: Axes, found: Sequence[Curve]) -> None:
    """Scale an axis linearly up to the smallest difference, then logarithmically.

    Differences range from the last bit of a number to about 1.
    """
    sizes = [abs(value) for curve in found for value in curve.differences if value]
    if sizes:
        largest, least = max(sizes), max(min(sizes), _LEAST)
        axis.set_yscale("symlog", linthresh=least)
        axis.set_ylim(-3 * largest, 3 * largest)
        powers = range(math.floor(math.log10(largest)), math.ceil(math.log10(least)) - 1, -2)
        ticks = [10.0**power for power in powers]
        axis.yaxis.set_major_locator(FixedLocator([*(-tick for tick in ticks), 0.0, *ticks]))
        axis.yaxis.set_minor_locator(NullLocator())
    else:
        axis.set_ylim(-1, 1)


def _mark_stages(axis: Axes, own: Sequence[Curve]) -> None:
    for curve in own[:1]:
        for number, (slots, places) in enumerate(curve.stages):
            at = curve.steps[places.start]
            if number:
                axis.axvline(at, color=style.MUTED, linewidth=0.9)
            axis.annotate(
                f"{slots} slots",
                (at, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, -9),
                textcoords="offset points",
                fontsize=style.SMALL_PT,
                color=style.MUTED,
            )


def _table(found: Sequence[Curve]) -> Table:
    stages = max(len(curve.stages) for curve in found)
    header = ["workload: level", "steps", "first that differs"]
    header += [f"largest difference, stage {number}" for number in range(stages)]
    rows = []
    for curve in sorted(found, key=lambda c: (c.workload, c.level, c.run_id)):
        first = next((s for s, d in zip(curve.steps, curve.differences, strict=True) if d), None)
        largest = [max(abs(curve.differences[i]) for i in places) for _, places in curve.stages]
        rows.append(
            [
                f"{curve.workload}: {curve.level}",
                str(len(curve.steps)),
                "none" if first is None else str(first),
                *(f"{value:.1e}" if value else "0" for value in largest),
                *[""] * (stages - len(largest)),
            ]
        )
    return Table(header, rows)


FIGURE = Declared(draw)

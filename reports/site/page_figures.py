"""Figures of a page, each drawn from the runs that have its tables, and a note on missing
figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl

from harness.answer.answer import varied_number
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures import ALWAYS, FIGURES, GENERAL
from reports.runs.selection import ReportRun

_SENSITIVITY = "sensitivity"
"""Figure over the values of a varied number."""


@dataclass(frozen=True)
class PageFigures:
    """Drawings of a page's runs, and a note on what cannot be drawn."""

    drawings: Sequence[tuple[str, Drawing]]
    """Each drawing with the name of its figure, in order."""
    note: str
    """Note on figures that are left out or lack runs because runs were copied without tables; "" if
    there are none."""


def draw(runs: Sequence[ReportRun], asked: Sequence[str]) -> PageFigures:
    """Draw the named figures in order, or else the general figures; then the figures of every page.

    Args:
        runs: runs of the page, at least one.
        asked: names of figures; empty for the general ones.
    """
    wanted = asked or (*_over_number(runs), *GENERAL)
    drawings: list[tuple[str, Drawing]] = []
    impossible: list[str] = []
    partly: dict[str, int] = {}
    lacking: set[str] = set()
    for figure in dict.fromkeys([*wanted, *ALWAYS]):
        needed = set(FIGURES[figure].tables)
        whole = [run for run in runs if not needed & run.stored.left_out.keys()]
        for run in runs:
            lacking |= needed & run.stored.left_out.keys()
        if not whole:
            impossible.append(figure)
            continue
        if len(whole) < len(runs):
            partly[figure] = len(whole)
        with mpl.rc_context(style.RC):
            drawings += [(figure, drawing) for drawing in FIGURES[figure].draw(whole)]
    return PageFigures(drawings, _note(impossible, partly, len(runs), sorted(lacking)))


def _over_number(runs: Sequence[ReportRun]) -> tuple[str, ...]:
    """Return the figure over a number if the runs of a sweep differ in one, seeds excluded."""
    swept = len({run.study for run in runs}) == 1 and varied_number([run.stored for run in runs])
    return (_SENSITIVITY,) if swept else ()


def _note(
    impossible: Sequence[str], partly: dict[str, int], num_runs: int, lacking: Sequence[str]
) -> str:
    texts = []
    if impossible:
        texts.append(f"not drawn, because no run has their tables: {', '.join(impossible)}")
    if partly:
        counts = (f"{figure} ({count:,} of {num_runs:,})" for figure, count in partly.items())
        texts.append(f"drawn from some of the runs: {', '.join(counts)}")
    if not texts:
        return ""
    reason = f"the others were copied without tables: {', '.join(lacking)}"
    if not partly:
        whole = "the run was" if num_runs == 1 else f"all {num_runs:,} runs were"
        reason = f"{whole} copied without tables: {', '.join(lacking)}"
    text = "; ".join(texts)
    return f"{text[0].upper()}{text[1:]}; {reason}."

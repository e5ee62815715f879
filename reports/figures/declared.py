"""Declaration of a figure; each module of figures has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reports.drawing.figure import Drawing
from reports.runs.selection import ReportRun

USUAL_TABLES = ("jobs", "grants", "changes", "outages")


@dataclass(frozen=True)
class Declared:
    """One figure of the report."""

    draw: Callable[[Sequence[ReportRun]], list[Drawing]]
    tables: Sequence[str] = USUAL_TABLES
    """Tables that a run must have for the figure to show it. Without any, the figure needs metrics
    alone, and also shows runs that were copied without tables."""
    general_place: int | None = None
    """Position among the figures that are drawn by default. None: the figure is drawn only if a
    study or ``--figures`` names it."""
    carries_answer: bool = True
    """False if a page shows the figure further down even if its study names it first: it tells what
    happened, and compares nothing."""
    is_always_drawn: bool = False
    """True if every page shows the figure, after the named figures."""

"""One look for all figures: colours that colour-blind readers can tell apart, units, notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from harness.metrics import Floats
from reports.selection import ReportRun, groups

PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00",
    "#56B4E9", "#5B5B5B", "#8C6D1F", "#5D2A6B", "#B4BBC4",
)  # fmt: skip
"""Okabe and Ito's colours without yellow and black, and four that differ in lightness."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
INK, MUTED, GRID, PAPER = "#22262B", "#6B7480", "#E3E6EA", "#FFFFFF"
WIDTH_IN = 8.4

RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "figure.constrained_layout.w_pad": 0.09,
    "figure.constrained_layout.h_pad": 0.06,
    "savefig.dpi": 150,
    "text.color": INK,
    "svg.fonttype": "path",
    "svg.hashsalt": "elastrace",
    "pdf.fonttype": 42,
}
"""matplotlib settings under which every figure is made and saved."""

_UNITS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "h"), (300.0, 60.0, "min"))


def new_figure(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    """An empty figure that lays itself out."""
    return Figure(figsize=(width_in, height_in), layout="constrained")


def time_unit(longest_s: float) -> tuple[float, str]:
    """Seconds of the unit that suits times up to this one, and its name."""
    for least_s, seconds, name in _UNITS:
        if longest_s >= least_s:
            return seconds, name
    return 1.0, "s"


class Looks:
    """A colour and a dash per name: the same name looks the same in every figure."""

    def __init__(self, names: Iterable[str]) -> None:
        self._order = {name: index for index, name in enumerate(sorted(set(names)))}

    def colour(self, name: str) -> str:
        """Colour of a name."""
        return PALETTE[self._order[name] % len(PALETTE)]

    def line(self, name: str) -> dict[str, Any]:
        """Colour and dash of a name's line."""
        index = self._order[name]
        return {"color": self.colour(name), "linestyle": DASHES[index % len(DASHES)]}


def note(runs: Sequence[ReportRun]) -> str:
    """What a reader must know about where the numbers come from, and the number of trials."""
    counts = {len(trials) for trials in groups(runs, "setting", "engine", "system").values()}
    low, high = min(counts), max(counts)
    count = str(low) if low == high else f"{low} to {high}"
    texts = [f"{count} trial{'s' if high != 1 else ''} each"]
    if any(run.is_emulated for run in runs):
        texts.append("emulated pace (steps padded to a profile)")
    by_profile = [run for run in runs if run.is_emulated or not run.is_live]
    if any(not run.profile_measured_here for run in by_profile):
        texts.append("profile not measured here")
    return "; ".join(texts)


def put_note(figure: Figure, runs: Sequence[ReportRun]) -> None:
    """Write the note below the figure."""
    figure.supxlabel(note(runs), fontsize=7.5, color=MUTED, x=0.995, ha="right")


def thinned(values: Floats, limit: int = 4000) -> NDArray[np.intp]:
    """Indices of at most so many values, evenly spread, first and last among them."""
    count = min(len(values), limit)
    return np.unique(np.linspace(0, len(values) - 1, count).round().astype(np.intp))


def shorten(text: str, length: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= length else text[: length - 1] + "…"

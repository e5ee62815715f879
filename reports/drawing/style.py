"""Common style of all figures: colours that colour-blind readers can distinguish, units, notes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter
from numpy.typing import NDArray

from harness.metrics.columns import Floats
from reports.drawing import letters
from reports.runs.selection import ReportRun, groups

PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00",
    "#56B4E9", "#5B5B5B", "#8C6D1F", "#5D2A6B", "#B4BBC4",
)  # fmt: skip
"""Okabe and Ito's colours without yellow and black, and four colours that differ in lightness."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
INK, MUTED, GRID, PAPER = "#22262B", "#6B7480", "#E3E6EA", "#FFFFFF"
WIDTH_IN = 8.4
SMALL_PT = 7.5
"""Size of the smallest letters. They are still 6 points in print if a figure is as wide as the text
of a page with two columns (7 inches)."""

RC: Any = {
    "font.family": letters.FAMILY,
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
    "text.parse_math": False,  # names from traces may have dollar signs
    "svg.fonttype": "path",
    "svg.hashsalt": "elastrace",
    "pdf.fonttype": 42,
}
"""matplotlib settings under which every figure is made and saved."""

_UNITS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "h"), (300.0, 60.0, "min"))


def new_figure(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    """Return an empty figure that lays itself out."""
    return Figure(figsize=(width_in, height_in), layout="constrained")


def time_unit(longest_s: float) -> tuple[float, str]:
    """Return the seconds in the unit that suits times up to ``longest_s``, and the unit's name."""
    for least_s, seconds, name in _UNITS:
        if longest_s >= least_s:
            return seconds, name
    return 1.0, "s"


class Looks:
    """Colour and dash of each name; the same set of names gives the same colours and dashes."""

    def __init__(self, names: Iterable[str]) -> None:
        self._order = {name: index for index, name in enumerate(sorted(set(names)))}

    def colour(self, name: str) -> str:
        """Return the colour of a name."""
        return PALETTE[self._order[name] % len(PALETTE)]

    def line(self, name: str) -> dict[str, Any]:
        """Return the colour and the dash of a name's line."""
        index = self._order[name]
        return {"color": self.colour(name), "linestyle": DASHES[index % len(DASHES)]}


def note(runs: Sequence[ReportRun]) -> str:
    """Return a note on the origin of the numbers and the number of trials."""
    counts = {len(trials) for trials in groups(runs, "setting", "engine", "system").values()}
    low, high = min(counts), max(counts)
    count = str(low) if low == high else f"{low} to {high}"
    texts = [f"{count} trial{'s' if high != 1 else ''} each"]
    if any(run.is_emulated for run in runs):
        texts.append("emulated pace (steps padded to a profile)")
    by_profile = [run for run in runs if run.is_emulated or not run.is_live]
    if any(not run.profile_measured_here for run in by_profile):
        texts.append("profile not measured here")
    generated = sorted({field for run in runs for field in run.generated})
    if generated:
        texts.append(f"not recorded in the trace: {_listed(generated)}")
    return "; ".join(texts)


_LISTED = 4


def _listed(fields: Sequence[str]) -> str:
    more = len(fields) - _LISTED
    return ", ".join(fields[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def put_note(figure: Figure, runs: Sequence[ReportRun]) -> None:
    """Write the note below the figure."""
    _put_below(figure, note(runs))


def _put_below(figure: Figure, text: str) -> None:
    lines = textwrap.wrap(text, _NOTE_LETTERS)
    figure.supxlabel("\n".join(lines), fontsize=SMALL_PT, color=MUTED, x=0.995, ha="right")


_NOTE_LETTERS = 125
"""Letters that fit into a line of the note."""


def put_title(axis: Axes, name: str, numbers: str, between: str = ", ") -> None:
    """Set a panel's title: its name and numbers, on two lines if one line is too short."""
    text = f"{name}{between}{numbers}" if numbers else name
    axis.set_title(text if len(text) <= _TITLE_LETTERS else f"{name}\n{numbers}")


_TITLE_LETTERS = 82
"""Bold letters that fit into a line as wide as the figure."""


def put_legend(figure: Figure) -> None:
    """Put a legend with every label once above the axes; the figure grows with it."""
    handles: dict[str, Artist] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault("\n".join(textwrap.wrap(label, _LINE_LETTERS)), handle)
    longest = max((len(line) for label in handles for line in label.splitlines()), default=0)
    num_columns = max(1, min(3, int(_LEGEND_LETTERS / (longest + _HANDLE_LETTERS))))
    width_in, height_in = figure.get_size_inches()
    num_rows = math.ceil(sum(label.count("\n") + 1 for label in handles) / num_columns)
    figure.set_size_inches(width_in, height_in + _LEGEND_ROW_IN * num_rows)
    figure.legend(
        handles.values(), handles, loc="outside upper left", ncols=num_columns, handlelength=3
    )


_LEGEND_LETTERS, _LINE_LETTERS, _HANDLE_LETTERS, _LEGEND_ROW_IN = 126, 96, 8, 0.17
"""Letters that fit into a row of the legend and into a line of a name, letters that the line before
a name takes, and the height of a row in inches."""


def put_count_note(figure: Figure, counts: Sequence[int], runs: Sequence[ReportRun]) -> None:
    """Write below the figure how many trials (single changes, not runs) it shows."""
    low, high = min(counts), max(counts)
    count = str(low) if low == high else f"{low} to {high}"
    texts = [
        f"{count} trial{'s' if high != 1 else ''} each,"
        f" in {len(runs)} run{'s' if len(runs) != 1 else ''}"
    ]
    if any(run.is_emulated for run in runs):
        texts.append("emulated pace (steps padded to a profile)")
    _put_below(figure, "; ".join(texts))


def plain_log_ticks(axis: Axis, linear_to: float | None = None) -> None:
    """Set ticks of a logarithmic axis as plain numbers, as many as fit between its limits.

    Args:
        axis: logarithmic or symmetric axis.
        linear_to: a symmetric axis is linear between minus this value and this value.
    """
    low, high = sorted(axis.get_view_interval())
    least = low if linear_to is None else linear_to
    decades = math.log10(max(high, 1.001 * least, 0.0 if linear_to is None else -low) / least)
    steps: tuple[float, ...] = (1,)
    for most, finer in (
        (0.5, (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)),
        (1.6, (1, 2, 5)),
        (3.2, (1, 3)),
    ):
        # The decades take only a part of a symmetric axis, too little for the finest steps.
        if decades < most and (linear_to is None or most > 0.5):
            steps = finer
            break
    powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(least) + decades) + 2)
    ticks = [step * 10.0**power for power in powers for step in steps]
    if linear_to is not None:
        ticks = [tick for tick in ticks if tick >= linear_to]
        ticks = [*(-tick for tick in reversed(ticks)), 0.0, *ticks]
    axis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def thinned(values: Floats, limit: int = 4000) -> NDArray[np.intp]:
    """Return indices of at most ``limit`` values, evenly spread, with the first and the last."""
    count = min(len(values), limit)
    return np.unique(np.linspace(0, len(values) - 1, count).round().astype(np.intp))


def shorten(text: str, length: int) -> str:
    """Return a text, cut so that it is drawn no wider than ``length`` letters."""
    if letters.width(text) <= length:
        return text
    kept = length - 1
    while letters.width(text[:kept]) >= length:
        kept -= 1
    return text[:kept] + "…"

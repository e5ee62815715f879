"""Panels of one figure with shared axes."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.drawing import style


def panels(num_panels: int, most_columns: int) -> tuple[Figure, list[Axes], list[Axes]]:
    """Return a figure, its panels with shared axes, and the panels that have no panel below."""
    columns = min(most_columns, num_panels)
    lines = -(-num_panels // columns)
    figure = style.new_figure(0.7 + 2.5 * lines)
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axis in axes.flat[num_panels:]:
        axis.set_visible(False)
    shown = list(axes.flat)[:num_panels]
    return figure, shown, shown[-columns:]

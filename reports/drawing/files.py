"""Writing of figures to files: the same records give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg

from reports.drawing import letters, style
from reports.drawing.figure import Drawing
from reports.runs import parallel as processes

FORMATS = ("svg", "png", "pdf")
_METADATA = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None}}


def save_all(folder: Path, drawings: Sequence[Drawing], formats: Sequence[str]) -> list[list[Path]]:
    """Save drawings and return the files of each, in order; empty for one without a figure."""
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(style.RC):
        uses_others = letters.prepare(each.figure for each in drawings if each.figure is not None)
    # Fonts of other scripts can often be embedded in a PDF only as outlines (type 3).
    changed = {**style.RC, "pdf.fonttype": 3} if uses_others else style.RC
    return processes.each(partial(_save, folder, formats, changed), drawings)


def _save(folder: Path, formats: Sequence[str], settings: Any, drawing: Drawing) -> list[Path]:
    figure = drawing.figure
    if figure is None:
        return []
    FigureCanvasAgg(figure)
    files = []
    with mpl.rc_context({**settings, "svg.hashsalt": drawing.name}):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # lay the figure out once, not for every format
        for form in formats:
            path = folder / f"{drawing.name}.{form}"
            content = io.BytesIO()
            figure.savefig(content, format=form, metadata=_METADATA[form])
            path.write_bytes(content.getvalue())
            files.append(path)
    return files

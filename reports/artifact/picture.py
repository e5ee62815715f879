"""The project's picture, ``docs/images/pause_by_state.png``, drawn from the committed records.

The file holds the table of its numbers as its description. So a picture can be compared with what
the records give now, whatever fonts a machine has.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from reports.drawing import letters, style
from reports.figures.pause_by_state import draw
from reports.runs.selection import ReportRun, SelectionError

PATH = Path("docs/images/pause_by_state.png")
_DPI = 200
"""Twice the pixels of a page that is 900 pixels wide, so that letters are sharp on fine screens."""
_KEY = "Description"


def picture(runs: Sequence[ReportRun]) -> tuple[bytes, str]:
    """Return the picture of these runs, as a PNG file, and the description that it holds.

    Raises:
        SelectionError: no run grows a job whose state has a stated size.
    """
    with mpl.rc_context(style.RC):
        (drawing,) = draw(runs)
        if drawing.figure is None or drawing.table is None:
            raise SelectionError(f"{PATH}: {drawing.missing}")
        letters.prepare([drawing.figure])
        FigureCanvasAgg(drawing.figure)
        text = f"{drawing.title}\n\n{drawing.table.to_markdown()}"
        content = io.BytesIO()
        described = {"Software": None, _KEY: text}
        drawing.figure.savefig(content, format="png", dpi=_DPI, metadata=described)
    return content.getvalue(), text


def description(path: Path) -> str:
    """Return the description that a picture holds; "" if it has none."""
    with Image.open(path) as image:
        return str(image.info.get(_KEY, ""))

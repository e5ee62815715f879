"""Figures into files, on all cores: most of a report's time is spent here."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg

from reports import style
from reports.drawing import Drawing

FORMATS = ("svg", "png", "pdf")
_METADATA = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None}}
_Work = tuple[Path, Sequence[Drawing], Sequence[str]]
_work: _Work | None = None
"""Of a process that saves: what it was forked with, since figures are costly to send."""


def save_all(folder: Path, drawings: Sequence[Drawing], formats: Sequence[str]) -> list[list[Path]]:
    """The files of each drawing, in order; none where it has no figure.

    The same records give the same bytes.
    """
    files: list[list[Path]] = [[] for _ in drawings]
    numbers = [number for number, drawing in enumerate(drawings) if drawing.figure is not None]
    folder.mkdir(parents=True, exist_ok=True)
    work = (folder, drawings, formats)
    num_processes = min(len(numbers), os.cpu_count() or 1)
    if num_processes < 2 or "fork" not in multiprocessing.get_all_start_methods():
        for number in numbers:
            files[number] = _save(work, number)
        return files
    with ProcessPoolExecutor(
        num_processes, multiprocessing.get_context("fork"), _begin, (work,)
    ) as pool:
        for number, names in zip(numbers, pool.map(_save_shared, numbers), strict=True):
            files[number] = names
    return files


def _begin(work: _Work) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    _work = work


def _save_shared(number: int) -> list[Path]:
    assert _work is not None
    return _save(_work, number)


def _save(work: _Work, number: int) -> list[Path]:
    folder, drawings, formats = work
    drawing = drawings[number]
    figure = drawing.figure
    assert figure is not None
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once, not again for every format
    files = []
    for form in formats:
        path = folder / f"{drawing.name}.{form}"
        content = io.BytesIO()
        with mpl.rc_context({**style.RC, "svg.hashsalt": drawing.name}):
            figure.savefig(content, format=form, metadata=_METADATA[form])
        path.write_bytes(content.getvalue())
        files.append(path)
    return files

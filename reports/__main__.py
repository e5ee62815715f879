"""``python -m reports [study=NAME] [--results DIR ...] [--out DIR]``: draw the report."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

from harness.interrupts import run_command
from harness.store import RESULT_DIRS, StoreError
from harness.tables import TableError
from reports import site, style
from reports.drawing import Drawing
from reports.figures import ALWAYS, FIGURES, ON_REQUEST
from reports.files import FORMATS
from reports.selection import ReportRun, SelectionError, select, study_figures
from reports.selection import name as named


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the report; returns the exit code (2: nothing to draw, or a wrong argument)."""
    chosen = _parse(arguments)
    began = time.perf_counter()
    try:
        study = _study(chosen.study)
        directories = chosen.results or [path for path in RESULT_DIRS if path.is_dir()]
        runs = select(directories or list(RESULT_DIRS), study)
        asked = chosen.figures or (study_figures(study) if study else None) or ()
        names = asked or tuple(FIGURES)
        unknown = sorted(set(names) - set(FIGURES))
        if unknown:
            raise SelectionError(
                f"unknown figures: {', '.join(unknown)}; known: {', '.join(FIGURES)}"
            )
        title = f"Elastrace: study {study}" if study else "Elastrace: report"
        words = sys.argv[1:] if arguments is None else arguments
        command = shlex.join(["python", "-m", "reports", *words])
        with mpl.rc_context(style.RC):
            wanted = [name for name in FIGURES if name in {*names, *ALWAYS}]
            whole = [run for run in runs if run.is_drawable]
            drawings = [
                (name, drawing)
                for name in wanted
                for drawing in (
                    FIGURES[name](_wanting(name, runs, whole, is_asked=bool(asked)))
                    if asked or name not in ON_REQUEST
                    else _by_study(name, whole)
                )
            ]
            site.write(chosen.out, title, command, runs, drawings, chosen.formats)
    except (SelectionError, StoreError, TableError) as error:
        print(error, file=sys.stderr)
        return 2
    drawn = sum(drawing.figure is not None for _, drawing in drawings)
    seconds = time.perf_counter() - began
    if len(whole) < len(runs):
        print(f"{len(runs) - len(whole)} runs were copied without tables: only in the comparison")
    print(f"{drawn} figures of {len(runs)} runs in {seconds:.1f} s: {chosen.out / 'index.html'}")
    return 0


def _wanting(
    name: str, runs: Sequence[ReportRun], whole: Sequence[ReportRun], *, is_asked: bool
) -> Sequence[ReportRun]:
    """The runs for one figure: where nobody asked for it, not those of studies that ask for
    others alone."""
    if name in ALWAYS:
        return runs
    if is_asked:
        return whole
    wants = {study: study_figures(study) for study in {run.study for run in whole}}
    return [run for run in whole if name in (wants[run.study] or (name,))]


def _by_study(name: str, runs: Sequence[ReportRun]) -> list[Drawing]:
    """A figure for the runs of every study that asks for it, one after another.

    They are named anew among themselves: what tells runs of other studies apart is of no
    interest there.
    """
    studies: dict[str, list[ReportRun]] = {}
    for run in runs:
        studies.setdefault(run.study, []).append(run)
    return [
        replace(drawing, name=f"{study}-{drawing.name}", title=f"{drawing.title}, {study}")
        for study, own in sorted(studies.items())
        if study and name in (study_figures(study) or ())
        for drawing in FIGURES[name](named(run.stored for run in own))
    ]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m reports",
        description="Draw figures, tables and a page from stored runs. Starts no run.",
    )
    parser.add_argument("study", nargs="?", help="study=NAME: only the runs of this study")
    parser.add_argument(
        "--results", type=Path, nargs="+", metavar="DIR",
        help=f"folders with runs (default: {', '.join(map(str, RESULT_DIRS))})",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("reports/site"), metavar="DIR")
    parser.add_argument("--figures", nargs="+", metavar="NAME", help=", ".join(FIGURES))
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=["svg", "png"])
    return parser.parse_args(arguments)


def _study(word: str | None) -> str | None:
    if word is None:
        return None
    key, found, study = word.partition("=")
    if key != "study" or not found or not study:
        raise SelectionError(f"{word!r} is no argument; write study=NAME")
    return study


if __name__ == "__main__":
    run_command(main)

"""``python -m reports [study=NAME] [--results DIR ...] [--out DIR]``: draw the report.

With a study or figures named, the command draws one page. Else it draws the whole site with the
verdicts on all claims.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.command_names import is_program, spelt
from harness.configuration.compose import is_file
from harness.configuration.study import study_name
from harness.errors import StoredDataError, UserError
from harness.files.safe_names import file_name
from harness.machine.command_parser import CommandParser
from harness.machine.interrupts import run_command
from harness.results.archive import located
from harness.results.store import REFERENCE, RESULT_DIRS, RUNS
from reports.claims import kept, ledger, wording
from reports.claims.verdicts import judge
from reports.drawing.figure import Drawing
from reports.drawing.files import FORMATS
from reports.figures import FIGURES, checked
from reports.perfetto import files as timelines
from reports.runs.selection import ReportRun, SelectionError, name, select
from reports.site import about, page_figures
from reports.site import build as overview
from reports.site import page as site
from reports.site.pages.base import Drawn

SITE = Path("results/site")
"""Folder below which reports are drawn unless ``--out`` is given."""
ALL, FIGURES_ALONE = "all", "figures"
"""Folder names of a report on all studies and of a report on named figures of all runs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the report and return the exit code.

    The code is 1 if a verdict of the whole site differs from the accepted one. It is 2 if there is
    nothing to draw or an argument is wrong.
    """
    chosen = _parse(arguments)
    words = sys.argv[1:] if arguments is None else arguments
    command = spelt("reports", *words)
    try:
        study = _study(chosen.study)
        chosen.out = chosen.out or _default_out(study, chosen.figures)
        results = [located(path) for path in chosen.results or ()]
        directories = results or [path for path in RESULT_DIRS if path.is_dir()]
        runs = select(directories or list(RESULT_DIRS), study)
        checked(chosen.figures or (), "--figures")
        if chosen.accept and (study or chosen.figures or len(directories) != 1):
            raise SelectionError("--accept is for all verdicts of one folder; give one --results")
        if chosen.perfetto:
            return _write_timelines(chosen.out, runs)
        if study or chosen.figures:
            return _draw_page(chosen, study, command, runs)
        return _draw_site(chosen, command, directories, runs)
    except (StoredDataError, UserError) as error:
        print(error, file=sys.stderr)
        return 2


def _write_timelines(out: Path, runs: Sequence[ReportRun]) -> int:
    """Write the timelines of the runs, say where they are, and return the exit code."""
    written = timelines.write(out, runs)
    for path in written:
        print(path)
    left_out = len(runs) - len(written)
    if left_out:
        print(f"{_counted(left_out, 'run')} without records of jobs and slots: no timeline")
    print(f"{_counted(len(written), 'timeline')}: open a file in https://ui.perfetto.dev")
    return 0


def _draw_page(
    chosen: argparse.Namespace, study: str | None, command: str, runs: Sequence[ReportRun]
) -> int:
    """Draw one page, of a study or of named figures, and return the exit code."""
    began = time.perf_counter()
    asked = chosen.figures or (_figures_of(study) if study else ())
    title = f"Elastrace: study {study}" if study else "Elastrace: report"
    found = page_figures.draw(runs, asked)
    site.write(
        chosen.out, title, command, runs, found.drawings, chosen.formats,
        description=about.description(study) if study else "", note=_note(found, runs),
    )  # fmt: skip
    _say(_num_drawn(found.drawings), runs, began, chosen.out)
    return 0


def _draw_site(
    chosen: argparse.Namespace, command: str, directories: Sequence[Path], runs: Sequence[ReportRun]
) -> int:
    """Draw every page: the verdicts on all claims, the papers and the studies."""
    began = time.perf_counter()
    papers = ledger.load()
    studies = overview.by_study(runs)
    figures = {study: _figures_of(study) for study in studies}
    verdicts = judge(papers, studies)

    def draw(study: str, own: Sequence[ReportRun], out: Path, claims: str) -> list[Drawn]:
        named_anew = name(run.stored for run in own)
        found = page_figures.draw(named_anew, figures[study])
        title = f"Elastrace: study {study}"
        site.write(
            out, title, command, named_anew, found.drawings, chosen.formats,
            "../../index.html", claims, about.description(study), _note(found, own),
        )  # fmt: skip
        return [
            Drawn(study, figure, each.name, each.title, each.figure is not None, each.table)
            for figure, each in found.drawings
        ]

    drawn = overview.write_site(chosen.out, command, papers, verdicts, studies, directories, draw)
    _say(drawn, runs, began, chosen.out)
    print(wording.summary(verdicts))
    # Accepted verdicts hold for the records of one folder, so they are not used with several.
    path = directories[0] / kept.FILE if len(directories) == 1 else None
    if path is not None and chosen.accept:
        kept.write(path, verdicts)
        return 0
    lines = [*kept.changes(path, verdicts)] if path is not None and path.is_file() else []
    if lines:
        print(
            "Verdicts that differ from the accepted verdicts:", *lines, sep="\n  ", file=sys.stderr
        )
        print("Check them; then accept them with --accept.", file=sys.stderr)
    return 1 if lines else 0


def _figures_of(study: str) -> Sequence[str]:
    """Return the figures that a study's file names; empty: the general figures are drawn.

    Raises:
        UserError: the file names a figure that does not exist.
    """
    return checked(about.study_figures(study) or (), f"configs/study/*/{study}.yaml: figures")


def _note(found: page_figures.PageFigures, runs: Sequence[ReportRun]) -> str:
    """Return a note on what a page leaves out: figures, and runs on other machines or contents."""
    studies = {run.study for run in runs}
    notes = (found.note, about.elsewhere(runs), about.edited(runs, studies))
    return " ".join(filter(None, notes))


def _num_drawn(drawings: Sequence[tuple[str, Drawing]]) -> int:
    return sum(drawing.figure is not None for _, drawing in drawings)


def _say(drawn: int, runs: Sequence[ReportRun], began: float, out: Path) -> None:
    committed = sum(run.stored.path.is_relative_to(REFERENCE) for run in runs)
    if 0 < committed < len(runs):
        print(
            f"{committed} of {len(runs)} runs come from {REFERENCE}, perhaps from another machine; "
            f"to leave them out: --results {RUNS}"
        )
    if edited := about.edited(runs):
        print(edited)
    copied = sum(not run.is_drawable for run in runs)
    if copied:
        were = "run was" if copied == 1 else "runs were"
        print(
            f"{copied} {were} copied without tables, so missing in figures that need these tables"
        )
    seconds = time.perf_counter() - began
    figures, of = _counted(drawn, "figure"), _counted(len(runs), "run")
    print(f"{figures} of {of} in {seconds:.1f} s: {out / 'index.html'}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(
        prog=spelt("reports"),
        description="Draw figures, tables and a page from stored runs. Starts no run.",
    )
    parser.add_argument(
        "study", nargs="?", metavar="NAME" if is_program() else "study=NAME",
        help="only the runs of this study (default: all runs)",
    )  # fmt: skip
    parser.add_argument(
        "--results", type=Path, nargs="+", metavar="DIR",
        help=f"folders with runs (default: {', '.join(map(str, RESULT_DIRS))})",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="DIR",
        help=f"folder of the report (default: {SITE}/STUDY; of all studies {SITE}/{ALL}, of named "
             f"figures {SITE}/{FIGURES_ALONE})",
    )  # fmt: skip
    parser.add_argument(
        "--figures", nargs="+", metavar="NAME",
        help=f"which figures (default: those of the study): {', '.join(FIGURES)}",
    )  # fmt: skip
    parser.add_argument(
        "--accept", action="store_true",
        help=f"accept the verdicts as they are now: write them to {kept.FILE} next to the records",
    )  # fmt: skip
    parser.add_argument(
        "--perfetto", action="store_true",
        help="instead of figures, write a timeline of each run, to open in Perfetto's UI, to the "
             f"folder {timelines.FOLDER} of the report; for one run, give its folder as --results",
    )  # fmt: skip
    parser.add_argument(
        "--formats", nargs="+", choices=FORMATS, default=[*FORMATS],
        help=f"of the figures' files (default: {' '.join(FORMATS)})",
    )  # fmt: skip
    return parser.parse_args(arguments)


def _default_out(study: str | None, figures: Sequence[str] | None) -> Path:
    """Return the default folder of a report, one for each study.

    The folder does not lie in a folder called ``reports``. In a command's working directory, a
    folder of that name could hide this package.
    """
    return SITE / (file_name(study) if study else FIGURES_ALONE if figures else ALL)


def _study(word: str | None) -> str | None:
    if word is None:
        return None
    key, found, study = word.partition("=")
    if key != "study" or not found or not study:
        raise SelectionError(f"{word!r} is no argument; write study=NAME")
    study = study_name(study)
    return Path(study).stem if is_file(study) else study


if __name__ == "__main__":
    run_command(main)

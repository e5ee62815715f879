"""Files of timelines: one for each run, next to the report."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

from harness.files.safe_names import file_name
from reports.perfetto.events import text
from reports.perfetto.timeline import timeline
from reports.runs.selection import ReportRun, SelectionError

FOLDER = "perfetto"
"""Folder of the timelines in the folder of a report."""
MOST_RUNS = 100
"""Largest number of runs whose timelines one command writes: each can have tens of megabytes."""
MOST_PLAIN_BYTES = 16 << 20
"""Largest file that is written plain; a larger one is compressed, and Perfetto opens both."""
_SUFFIXES = (".perfetto.json", ".perfetto.json.gz")


def write(
    out: Path, runs: Sequence[ReportRun], most_plain_bytes: int = MOST_PLAIN_BYTES
) -> list[Path]:
    """Write the timeline of each run below a report's folder, and return the files.

    Runs without records of jobs and slots are left out. The same records give the same bytes.

    Raises:
        SelectionError: no run has these records, or there are too many runs.
        TableError: records of a run are damaged.
    """
    drawable = [run for run in runs if run.is_drawable]
    if not drawable:
        names = ", ".join(run.run_id for run in runs[:3]) + (", ..." if len(runs) > 3 else "")
        raise SelectionError(
            "--perfetto: no timeline can be drawn, because records of jobs and slots were left out"
            f" when these runs were copied (--slim): {names}; run one of them again with --from and"
            " its configuration, or choose another run"
        )
    if len(drawable) > MOST_RUNS:
        raise SelectionError(
            f"--perfetto: would write {len(drawable):,} files, more than {MOST_RUNS}; choose fewer"
            " runs with study=NAME, or with --results and the folder of one run"
        )
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    return [_write(out, run, most_plain_bytes) for run in drawable]


def perfetto_path(out: Path, run_id: str) -> Path | None:
    """Return the timeline of a run below a report's folder, or None if none was written."""
    return next((path for path in _paths(out, run_id) if path.is_file()), None)


def _paths(out: Path, run_id: str) -> list[Path]:
    """Return the possible files of a run's timeline: plain and compressed."""
    return [out / FOLDER / f"{file_name(run_id)}{suffix}" for suffix in _SUFFIXES]


def _write(out: Path, run: ReportRun, most_plain_bytes: int) -> Path:
    about = {
        "run": run.run_id,
        "setting": run.setting,
        "system": run.system,
        "engine": run.engine,
        "clock": "microseconds since the start of the run",
    }
    content = "".join(text(timeline(run), about)).encode()
    plain, compressed = _paths(out, run.run_id)
    path, other = plain, compressed
    if len(content) > most_plain_bytes:
        path, other = compressed, plain
        content = gzip.compress(content, mtime=0)
    path.write_bytes(content)
    other.unlink(missing_ok=True)  # of an earlier command, so that no report links to old records
    return path

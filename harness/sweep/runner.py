"""Runner of a sweep's points: one process each, finished points skipped, with a summary.

Simulated points run in parallel. Points that occupy the machine (the live engine) run afterwards,
one at a time and alone, so that nothing disturbs their clock. Finished points stay finished: after
any stop the same command continues. A point that another command runs is skipped here, and counts
as stored when that command has stored it (see ``point_claims.py``).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.comparison.as_recorded import recorded_rows
from harness.comparison.assumptions import lines
from harness.configuration.compose import compose, defaults, parse_overrides, quote
from harness.configuration.schema import RunConfig, read_config
from harness.configuration.study import Point
from harness.errors import UserError
from harness.files.atomic_json import write_json
from harness.files.owned_names import owned, stem_if_left
from harness.machine.child_process import PointProcess, stop_all
from harness.machine.interrupts import Interrupted, interruptible
from harness.machine.terminal import console, seconds
from harness.results.store import RunStore, StoredRun
from harness.run.estimate import estimate_wall_s
from harness.run.execute import config_yaml, describe_runs, mirror_run, print_warnings
from harness.run.plan import Library, RunPlan, plan
from harness.sweep.point_claims import LOOK_S, Claim, Claims, Refusal
from harness.sweep.progress import SweepProgress
from harness.sweep.summary import executed_line, fixed_size_lines, metrics_table
from harness.tracking.rows import display_names

GRACE_S = 20.0
"""Seconds that points get to close their workers after Ctrl-C or SIGTERM."""

_LOG_LINES = 6


@dataclass(frozen=True)
class Sweep:
    """Points to run, with their common overrides."""

    label: str
    """Name of the study, or of the command; names the folder of logs and of the summary."""
    common: Sequence[str]
    """Overrides of every point."""
    points: Sequence[Point]
    parallel: int | None = None
    """Largest number of simulated points at once; None: the number of cores."""


@dataclass
class Entry:
    """State of one point of a sweep."""

    point: Point
    words: list[str]
    planned: RunPlan
    estimate_s: float
    status: str = "to run"
    process: PointProcess | None = None
    claim: Claim | None = None
    stored: StoredRun | None = None
    wall_s: float = 0.0

    @property
    def is_open(self) -> bool:
        """True if the point is still to be run, or runs."""
        return self.status in ("to run", "running")

    @property
    def remaining_s(self) -> float:
        """Remaining part of the estimate, in seconds."""
        if self.process is None:
            return self.estimate_s
        return max(0.0, self.estimate_s - (time.monotonic() - self.process.started_s))


def plan_sweep(
    sweep: Sweep, library: Library | None = None, *, check_workloads: bool = True
) -> list[Entry]:
    """Compose, build and check every point; start nothing.

    Args:
        sweep: the sweep to plan.
        library: loaded traces and profiles to share with other sweeps.
        check_workloads: as for ``plan``.

    Raises:
        UserError: the problems of all points, each once, with the points that it concerns.
    """
    library = library or Library()
    entries: list[Entry] = []
    places: dict[str, list[Point]] = {}
    for point in sweep.points:
        words = [*sweep.common, *point.overrides, f"sweep={quote(sweep.label)}"]
        try:
            config = read_words(words, library=library)
            planned = plan(config, library, check_workloads=check_workloads)
        except UserError as error:
            for problem in error.problems:
                places.setdefault(str(problem), []).append(point)
            continue
        entries.append(Entry(point, words, planned, estimate_wall_s(planned)))
    places.update(_same_runs(entries))
    if places:
        raise UserError(_placed(text, at, len(sweep.points)) for text, at in places.items())
    for entry in entries:
        entry.stored = entry.planned.reusable()
        entry.status = "to run" if entry.stored is None else "stored"
    return entries


def _same_runs(entries: Sequence[Entry]) -> dict[str, list[Point]]:
    """Return a problem for points that are the same run, and so would overwrite each other."""
    by_run: dict[str, list[Point]] = {}
    for entry in entries:
        by_run.setdefault(entry.planned.run_id, []).append(entry.point)
    fact = (
        "are the same run, since they differ only in options without effect on results; give "
        "one of them, or a different seed to each"
    )
    return {f"points of run {r}: {fact}": p for r, p in by_run.items() if len(p) > 1}


def _placed(text: str, points: Sequence[Point], num_points: int) -> str:
    if len(points) == num_points:
        return text
    return f"[{' '.join(points[0].overrides)}] ({len(points)} of {num_points} points) {text}"


def read_words(
    words: Sequence[str],
    base: Mapping[str, Any] | None = None,
    library: Library | None = None,
) -> RunConfig:
    """Return the configuration of one command line.

    Args:
        words: overrides in Hydra's grammar.
        base: a stored configuration to start from instead of the defaults.
        library: parts already loaded and checked for other points.

    Raises:
        UserError: all mistakes in the words and in the configuration that they compose.
    """
    understood = parse_overrides(words)
    container, problems = compose(understood, base)
    problems = [*understood.problems, *problems]
    if container is None:
        raise UserError(problems)
    config, unread = read_config(container, defaults()[1])
    problems += unread
    if config is None:
        raise UserError(problems)
    if problems:  # the words are wrong, but the parts they leave can still be judged
        try:
            plan(config, library)
        except UserError as error:
            problems += error.problems
        raise UserError(problems)
    return config


def show_plan(sweep: Sweep, entries: Sequence[Entry]) -> None:
    """Print the points that would run, and their expected time."""
    out = console()
    for number, entry in enumerate(entries, 1):
        axes = " ".join(f"{axis}={value}" for axis, value in entry.point.axes.items())
        time_text = f"about {seconds(entry.estimate_s)}" if entry.is_open else "stored already"
        jobs = len(entry.planned.trace.jobs)
        line = f"{number:4}  {axes}  {jobs:,} jobs, {time_text}  ({entry.planned.run_id})"
        out.print(line, markup=False)  # rich would read a list of names as a style
    still = [entry for entry in entries if entry.is_open]
    print_warnings(entry.planned for entry in still)
    total = seconds(remaining_s(entries, _width(sweep)))
    out.print(
        f"{len(entries)} points, {len(still)} to run, about {total} in all. dry=true: nothing"
        " was started."
    )


def _width(sweep: Sweep) -> int:
    return sweep.parallel or os.cpu_count() or 1


def remaining_s(entries: Sequence[Entry], width: int) -> float:
    """Return the expected seconds of the open points: ``width`` in parallel, exclusive ones alone.

    Estimates are corrected by the real times of the exclusive points that have ended here.
    """
    ended = [e for e in entries if e.status == "done" and e.planned.engine.exclusive]
    guessed_s = sum(e.estimate_s for e in ended)
    correction = sum(e.wall_s for e in ended) / guessed_s if guessed_s else 1.0
    still = [(e.remaining_s, e.planned.engine.exclusive) for e in entries if e.is_open]
    side_by_side = [seconds_left for seconds_left, exclusive in still if not exclusive]
    alone_s = sum(seconds_left for seconds_left, exclusive in still if exclusive)
    longest = max(side_by_side, default=0.0)
    return correction * alone_s + max(longest, sum(side_by_side) / width)


def run_sweep(sweep: Sweep, entries: list[Entry]) -> int:
    """Run the unfinished points, print a summary of all points, and return the exit code.

    Returns:
        0, or 1 if any point failed; 130 or 143 after Ctrl-C or SIGTERM.
    """
    out = console()
    folder = sweep_folder(sweep, entries)
    folder.mkdir(parents=True, exist_ok=True)
    print_warnings(entry.planned for entry in entries if entry.is_open)
    progress = SweepProgress(len(entries), sum(not entry.is_open for entry in entries))
    exit_code = 0
    try:
        with interruptible(), progress:
            _run_all(sweep, entries, folder, progress)
            mirror_all(entries)
    except Interrupted as interrupted:
        exit_code = interrupted.exit_code
        out.print(f"Stopping ({interrupted}) ...")
        running = [entry.process for entry in entries if entry.process and entry.is_open]
        signum = interrupted.signum if interrupted.signum == signal.SIGINT else signal.SIGTERM
        stop_all(running, signum, GRACE_S, out.print)
        for entry in entries:
            entry.status = "stopped" if entry.status == "running" else entry.status
    finally:
        for entry in entries:
            if entry.process is not None and entry.process.returncode is None:
                entry.process.kill()
            _release(entry)
    failed = [entry for entry in entries if entry.status.startswith("failed")]
    write_points(folder, sweep, entries)
    show_summary(entries, folder)
    if exit_code:
        left = sum(entry.stored is None for entry in entries)
        out.print(f"{left} points are left; the same command continues with them.")
        return exit_code
    return 1 if failed else 0


def _run_all(sweep: Sweep, entries: Sequence[Entry], folder: Path, progress: SweepProgress) -> None:
    """Start points as others end, until none is left."""
    width = _width(sweep)
    waiting = sorted(
        (entry for entry in entries if entry.is_open), key=lambda e: e.planned.engine.exclusive
    )
    running: list[Entry] = []
    roots = {entry.planned.config.results_dir for entry in entries}
    claims = {root: Claims(Path(root), progress.say) for root in roots}
    next_look_s = 0.0
    while waiting or running:
        ended = [e for e in running if e.process and e.process.returncode is not None]
        for entry in ended:
            running.remove(entry)
            _finish(entry)
            progress.ended(_title(entry), entry.status, entry.wall_s)
        # Every end of a point makes room for another. Claims of other commands are checked only
        # every ``LOOK_S``.
        if ended or time.monotonic() >= next_look_s:
            _start(waiting, running, width, claims, folder, progress)
            next_look_s = time.monotonic() + LOOK_S
        progress.waiting(remaining_s(entries, width), [_title(entry) for entry in running])
        time.sleep(0.1)


def _start(
    waiting: list[Entry],
    running: list[Entry],
    width: int,
    claims: Mapping[str, Claims],
    folder: Path,
    progress: SweepProgress,
) -> None:
    """Move the points that have room, and that no other command runs, from waiting to running.

    Points that were stored meanwhile are taken out of ``waiting``.
    """
    for entry in list(waiting):
        if not has_room(entry, running, width):
            return
        planned = entry.planned
        taken = claims[planned.config.results_dir].take(
            planned.run_id, planned.reusable, alone=planned.engine.exclusive
        )
        if isinstance(taken, Refusal):
            if taken.is_of_machine:
                return
            continue
        waiting.remove(entry)
        if not isinstance(taken, Claim):
            entry.stored, entry.status = taken, "stored"
            progress.stored_elsewhere(_title(entry))
            continue
        entry.claim = taken
        entry.process = _process(entry, folder, taken.descriptors)
        entry.process.start()
        entry.status = "running"
        running.append(entry)


def _process(entry: Entry, folder: Path, descriptors: Sequence[int]) -> PointProcess:
    """Return the process of a point. It reads the resolved configuration, so that editing files
    does not change it."""
    planned = entry.planned
    path = _own_file(folder / "points", planned.run_id, ".yaml")
    path.write_text(config_yaml(planned.config), encoding="utf-8")
    words = ["--from", str(path), f"results_dir={quote(planned.config.results_dir)}"]
    words += [f"sweep={quote(planned.config.sweep)}", f"force={quote(planned.config.force)}"]
    log = _own_file(folder / "logs", planned.run_id, ".log")
    return PointProcess([*words, "progress=false", "--point"], log, descriptors=descriptors)


def _own_file(folder: Path, run_id: str, suffix: str) -> Path:
    """Return a path that no other command uses; remove this run's files of commands that ended.

    Other commands may run a point of the same run, and show the end of its log as theirs.
    """
    folder.mkdir(exist_ok=True)
    for path in folder.glob(f"{run_id}-*{suffix}"):
        if stem_if_left(path.name.removesuffix(suffix)) == run_id:
            path.unlink(missing_ok=True)
    return folder / f"{owned(run_id)}{suffix}"


def mirror_all(entries: Sequence[Entry]) -> None:
    """Copy every stored point to MLflow, in this process; points that MLflow has already stay as
    they are.

    The points' own processes do not, because loading MLflow takes longer than most simulated
    points. A store that another process has locked is waited for once, not for every point.
    """
    locked: list[Mapping[str, Any]] = []
    names = display_names([entry.stored for entry in entries if entry.stored])
    of_store: list[tuple[Mapping[str, Any], list[StoredRun]]] = []
    for entry in entries:
        tracking = entry.planned.config.tracking
        if entry.stored is None or tracking in locked:
            continue
        if not mirror_run(entry.stored, tracking, names[entry.stored.run_id]):
            locked.append(tracking)
        own = next((runs for config, runs in of_store if config == tracking), None)
        if own is None:
            of_store.append((tracking, [entry.stored]))
        else:
            own.append(entry.stored)
    for tracking, runs in of_store:
        if tracking not in locked:
            describe_runs(runs, tracking)


def has_room(entry: Entry, running: Sequence[Entry], width: int) -> bool:
    """Return whether a point may start next to those that run."""
    if entry.planned.engine.exclusive or any(e.planned.engine.exclusive for e in running):
        return not running
    return len(running) < width


def _title(entry: Entry) -> str:
    return " ".join(entry.point.axes.values()) or entry.planned.run_id


def _finish(entry: Entry) -> None:
    assert entry.process is not None
    code = entry.process.returncode
    entry.wall_s = time.monotonic() - entry.process.started_s
    store = RunStore(Path(entry.planned.config.results_dir))
    entry.stored = store.find(entry.planned.run_id) if code == 0 else None
    ended = f"failed ({code})" if code else "failed (another run was stored)"
    entry.status = "done" if entry.stored is not None else ended
    _release(entry)


def _release(entry: Entry) -> None:
    """Release the claim of a point that has ended.

    A process that could not be killed yet keeps the claim, which it has inherited.
    """
    if entry.claim and entry.process and entry.process.returncode is not None:
        entry.claim.release()


def sweep_folder(sweep: Sweep, entries: Sequence[Entry]) -> Path:
    """Return the folder of a sweep's logs and summary: ``sweeps/<label>`` next to the runs."""
    runs = Path(entries[0].planned.config.results_dir) if entries else Path("results/runs")
    return runs.parent / "sweeps" / sweep.label


def write_points(folder: Path, sweep: Sweep, entries: Sequence[Entry]) -> Path:
    """Write ``points.json``: the points of a sweep, their runs and how they ended."""
    document = {
        "sweep": sweep.label,
        "points": [
            {
                "overrides": [*sweep.common, *entry.point.overrides],
                "axes": dict(entry.point.axes),
                "run_id": entry.planned.run_id,
                "config_hash": entry.planned.config_hash,
                "status": entry.status,
            }
            for entry in entries
        ],
    }
    path = folder / "points.json"
    write_json(path, document)
    return path


def show_summary(entries: Sequence[Entry], folder: Path) -> None:
    """Print the table of all points, the failures with reasons, and the share of steps really
    executed."""
    out = console()
    rows = [
        (entry.point.axes, entry.status, entry.stored.metrics if entry.stored else {})
        for entry in entries
    ]
    stored = [entry.stored for entry in entries if entry.stored]
    out.print(metrics_table(rows, recorded_rows(stored)))
    for text in lines(stored):
        out.print(f"warning: {text}", markup=False)
    for entry in entries:
        if entry.status.startswith("failed") and entry.process is not None:
            line = f"{_title(entry)}: {entry.status}; log: {entry.process.log_path}"
            out.print(line, markup=False)
            for line in entry.process.tail(_LOG_LINES):
                out.print(f"    {line}", markup=False)
        for line in fixed_size_lines(entry.stored.rows("fixed_size") if entry.stored else []):
            out.print(f"{_title(entry)}: {line}", markup=False)
    facts = [entry.stored.facts for entry in entries if entry.stored]
    for line in filter(None, [executed_line(facts)]):
        out.print(line)
    out.print(f"Points and logs: {folder}")

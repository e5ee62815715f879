"""Command ``python -m harness.reference study=NAME``: copies a study's finished runs to the
reference.

The copies are in ``results/reference/<hardware>/<study>/<run id>/`` and are ordinary runs, without
the logs and checkpoints of their jobs. With ``--slim`` the configuration is compressed and large
tables are left out. The manifest of such a copy lists them (``left_out``), and all readers report
it. With ``--packed`` the study's folder becomes one file (``archive.py``). It then stays one file
whenever runs are copied there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.study import Study, load_study, study_name
from harness.errors import Problem, UserError, render
from harness.files.gz_text import compress, text_path
from harness.machine.interrupts import run_command
from harness.machine.manifest import hardware_slug
from harness.results.archive import ArchiveError, archive_of, pack, unpacked
from harness.results.store import (
    CONFIG,
    MANIFEST,
    RunStore,
    StoredRun,
    StoreError,
    iter_runs,
    load_run,
)
from harness.results.tables import TABLES
from harness.run.plan import Library, plan
from harness.sweep.runner import read_words
from harness.validate import check_run

SLIM_BYTES = 200_000
"""Size above which tables are left out of slim copies."""
_NEVER_DRAWN = frozenset({"decisions"})
"""Tables that no figure and no criterion reads; slim copies leave them out too."""
_MACHINE = ("cpu", "cores", "accelerators")
"""Entries of a manifest's hardware that distinguish machines."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One run to copy."""

    run: StoredRun
    to: Path
    left_out: Mapping[str, int]
    """Tables that are not copied, with their sizes in bytes."""
    slim: bool


def find_runs(label: str, results: Path, words: Sequence[str] = ()) -> list[StoredRun]:
    """Return the finished runs of a study, or the finished runs with a sweep's label.

    A study is looked up point by point, like the command that runs it does. A label that is no
    study (``profile-NAME``, or that of ``-m``) is searched for in the manifests.

    Args:
        label: name or file of a study, or the label of a sweep.
        results: folder with the runs.
        words: overrides with which the study was run; those that name one of its axes choose among
            its points.

    Raises:
        UserError: there is no such run, or points of the study have not been run.
        StoreError: a run cannot be read by this version.
    """
    study = _study(label)
    if study is None:
        runs = [run for run in iter_runs(results) if run.manifest.get("sweep") == label]
        if words:
            hint = "leave them out; only a study can be looked up with overrides"
            raise UserError([Problem(" ".join(words), f"{label} is no study", hint)])
        if not runs:
            fact = f"no study has that name, and no run in {results} has that label"
            raise UserError([Problem(label, fact, "name a study, or the label of a sweep")])
        return runs
    library, store = Library(), RunStore(results)
    found: dict[str, StoredRun] = {}
    missing = []
    for point in study.chosen(words):
        config = read_words([*study.base, *words, *point.overrides])
        run_id = plan(config, library, check_workloads=False).run_id
        run = store.find(run_id)
        if run is None:
            missing.append(" ".join(point.overrides) or run_id)
        else:
            found[run_id] = run
    if missing:
        total = len(missing) + len(found)
        shown = "; ".join(missing[:3]) + ("; ..." if len(missing) > 3 else "")
        fact = f"{len(missing)} of {total} points have no finished run in {results} ({shown})"
        hint = f"run them: python -m harness {' '.join([f'study={label}', *words])}"
        raise UserError([Problem(f"study {label}", fact, hint)])
    return list(found.values())


def _study(label: str) -> Study | None:
    try:
        return load_study(label)
    except UserError:
        if label.endswith((".yaml", ".yml")):
            raise
        return None


def plan_copies(
    runs: Iterable[StoredRun],
    label: str,
    to: Path,
    *,
    slim: bool,
    hardware: str | None = None,
    limit_bytes: int = SLIM_BYTES,
) -> list[Copy]:
    """Return the copies to make, each with its place and the tables that it leaves out.

    Args:
        runs: finished runs of one study.
        label: name of the study.
        to: folder of the reference.
        slim: true to leave out large tables.
        limit_bytes: size above which tables are large.
        hardware: only copy the runs of this machine (a slug).

    Raises:
        UserError: the runs were made on several machines, or the reference has runs of another
            machine already.
    """
    machines: dict[str, list[StoredRun]] = {}
    for run in runs:
        machines.setdefault(_machine(run), []).append(run)
    slugs = {key: hardware_slug(own[0].manifest["hardware"]) for key, own in machines.items()}
    if hardware is not None:
        machines = {key: own for key, own in machines.items() if slugs[key] == hardware}
    if len(machines) != 1:
        listed = ", ".join(f"{slugs[key]} ({len(own)} runs)" for key, own in machines.items())
        known = ", ".join(sorted(set(slugs.values())))
        fact = f"made on several machines: {listed}" if machines else f"none made on {hardware}"
        hint = f"choose with --hardware; known: {known}"
        raise UserError([Problem(f"runs of {label}", fact, hint)])
    ((key, own),) = machines.items()
    folder = to / slugs[key] / label
    there = (folder, archive_of(folder))
    others = [run for place in there for run in iter_runs(place) if _machine(run) != key]
    if others:
        fact = f"holds {len(others)} runs of another machine, {_machine(others[0])}"
        raise UserError([Problem(str(folder), fact, "move them, or give another --to")])
    return [
        Copy(run, folder / run.run_id, _large(run, limit_bytes) if slim else {}, slim)
        for run in own
    ]


def _machine(run: StoredRun) -> str:
    hardware = run.manifest.get("hardware") or {}
    return json.dumps({key: hardware.get(key) for key in _MACHINE})


def _large(run: StoredRun, limit_bytes: int) -> dict[str, int]:
    sizes = {name: run.table_bytes(name) for name in TABLES if name not in run.left_out}
    return {
        name: size
        for name, size in sizes.items()
        if size > (0 if name in _NEVER_DRAWN else limit_bytes)
    }


def copy_runs(copies: Sequence[Copy], *, force: bool = False) -> tuple[int, int]:
    """Copy the runs that are missing; return how many were copied and how many existed already.

    Raises:
        UserError: a run is unsound, or a different copy exists and ``force`` is not given.
    """
    problems: list[Problem | str] = []
    waiting = []
    for copy in copies:
        problems += check_run(copy.run.path)
        if not copy.to.exists() or force:
            waiting.append(copy)
        elif _manifest(copy) != dict(load_run(copy.to).manifest):
            fact = "is there already, and differs from the run"
            problems.append(Problem(str(copy.to), fact, "--force writes over it"))
    if problems:
        raise UserError(problems)
    for copy in waiting:
        _copy(copy)
    return len(waiting), len(copies) - len(waiting)


def _manifest(copy: Copy) -> dict[str, Any]:
    left_out = {**copy.run.left_out, **copy.left_out}
    return {**copy.run.manifest, **({"left_out": left_out} if left_out else {})}


def _copy(copy: Copy) -> None:
    partial = copy.to.with_name(f".partial-{copy.to.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    without = {f"{name}.csv.gz" for name in copy.left_out}
    without.add(text_path(copy.run.path, MANIFEST).name)
    for path in copy.run.files():
        if path.name not in without:
            shutil.copyfile(path, partial / path.name)
    text = json.dumps(_manifest(copy), indent=1) + "\n"
    (partial / MANIFEST).write_text(text, encoding="utf-8")
    for name in (CONFIG, MANIFEST) if copy.slim else ():
        if (partial / name).is_file():  # otherwise the source was slim already
            compress(partial / name)
    if copy.to.exists():
        shutil.rmtree(copy.to)
    partial.rename(copy.to)


@contextmanager
def _unpacked(folder: Path) -> Iterator[None]:
    """Unpack the study's folder for copying, and pack it into one file afterwards. If that fails,
    an earlier archive stays as it was.

    Raises:
        ArchiveError: the archive cannot be read, or written.
    """
    archive = archive_of(folder)
    is_opened = archive.is_file() and not folder.exists()
    try:
        if archive.is_file():
            shutil.copytree(unpacked(archive), folder, dirs_exist_ok=True)
        yield
        try:
            pack(folder)
        except OSError as error:
            raise ArchiveError(
                f"{archive}: cannot be written: {error.strerror or error}; free some space (or see"
                " that its folder can be written), then copy again"
            ) from error
    except BaseException:
        if is_opened:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _others(folder: Path, copies: Sequence[Copy]) -> list[str]:
    """Return the ids of runs in a study's folder that are not among these copies."""
    ours = {copy.to.name for copy in copies}
    return [run.run_id for run in iter_runs(folder) if run.run_id not in ours]


def _bytes(copy: Copy) -> int:
    return sum(path.stat().st_size for path in copy.to.iterdir())


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.reference",
        description=(
            "Copy the finished runs of a study to results/reference/HARDWARE/STUDY/, without logs "
            "and checkpoints. Existing copies that are equal are left alone."
        ),
        epilog="Exit codes: 0 copied; 2 a wrong argument, or nothing that can be copied.",
    )
    parser.add_argument("study", help="study=NAME, NAME a study or the label of a sweep")
    parser.add_argument(
        "words", nargs="*", metavar="KEY=VALUE", help="overrides it was run with, or size=quick"
    )
    parser.add_argument("--results", type=Path, default=Path("results/runs"), metavar="DIR")
    parser.add_argument("--to", type=Path, default=Path("results/reference"), metavar="DIR")
    parser.add_argument(
        "--slim",
        action="store_true",
        help="leave out tables that no figure reads, and tables above --slim-kb",
    )
    parser.add_argument(
        "--slim-kb", type=int, default=SLIM_BYTES // 1000, metavar="KB",
        help=f"of --slim (default: {SLIM_BYTES // 1000})",
    )  # fmt: skip
    parser.add_argument(
        "--packed", action="store_true", help="make the study's folder one file, STUDY.tar.xz"
    )
    parser.add_argument("--hardware", metavar="SLUG", help="only the runs of this machine")
    parser.add_argument("--force", action="store_true", help="write over other copies")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Copy the runs of a study; return the exit code."""
    options = build_parser().parse_intermixed_args(argv)
    key, _, label = options.study.partition("=")
    try:
        if key != "study" or not label:
            raise UserError([Problem(options.study, "is no argument", "write study=NAME")])
        label = study_name(label)
        name = Path(label).stem if label.endswith((".yaml", ".yml")) else label
        words = options.words
        if "size=quick" in words:
            rest = [word for word in words if word != "size=quick"]
            study = _study(label)
            words = rest if study is None else study.sized(rest)
        runs = find_runs(label, options.results, words)
        copies = plan_copies(
            runs,
            name,
            options.to,
            slim=options.slim,
            hardware=options.hardware,
            limit_bytes=1000 * options.slim_kb,
        )
        folder = copies[0].to.parent
        is_packed = archive_of(folder).is_file()
        with _unpacked(folder) if options.packed or is_packed else nullcontext():
            num_copied, num_there = copy_runs(copies, force=options.force)
            others, size = _others(folder, copies), sum(map(_bytes, copies))
    except UserError as error:
        print(render(error.problems), file=sys.stderr)
        return 2
    except (StoreError, ArchiveError) as error:
        print(error, file=sys.stderr)
        return 2
    for copy in copies:
        if copy.left_out:
            listed = ", ".join(f"{n} ({s / 1000:,.0f} kB)" for n, s in copy.left_out.items())
            print(f"{copy.to.name}: without {listed}")
    if others:
        print(
            f"{len(others)} other runs are there too, such as {others[0]}: remove them if an "
            "earlier version of the study made them"
        )
    there = f", {num_there} were there" if num_there else ""
    place = archive_of(folder) if archive_of(folder).is_file() else folder
    size = place.stat().st_size if place.is_file() else size
    print(f"{num_copied} runs copied{there}: {place}, {size / 1e6:,.2f} MB in all")
    return 0


if __name__ == "__main__":
    run_command(main)

"""Results on disk: one directory per finished run, from which everything else is derived.

A run directory holds ``manifest.json``, ``config.yaml`` (both see ``text_file.py``), the tables of
its records (see ``tables.py``; an empty one has no file), ``facts.json``, ``digests.json`` and
``metrics.json``. It is written in ``.partial-<run id>-<pid>-<host>`` next to its place. It moves
there in one step when it is complete, so a run that is listed is whole.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import yaml

from harness.command_names import spelt
from harness.configuration.benchmark_version import BENCHMARK_VERSION, KEY
from harness.configuration.fast_yaml import read_alike
from harness.configuration.moved_modules import with_current_names
from harness.errors import StoredDataError
from harness.files.bounded_file import opened, parse_json, read_text
from harness.files.gz_text import text_path
from harness.files.owned_names import owned, stem_if_left
from harness.files.replace_folder import REPLACED, put_in_place
from harness.files.whole_file import synchronise_folder
from harness.results.archive import ArchiveError, archive_of, is_archive, shown, unpacked
from harness.results.records import SCHEMA_VERSION, RunRecords
from harness.results.stored_documents import (
    config_problems,
    digests_problems,
    facts_problems,
    manifest_problems,
    metrics_problems,
)
from harness.results.tables import TABLES, TableError, read_frame, read_table, write_table

if TYPE_CHECKING:
    import pandas as pd

CONFIG = "config.yaml"
MANIFEST, METRICS = "manifest.json", "metrics.json"
FACTS, DIGESTS = "facts.json", "digests.json"
_TEXTS = (CONFIG, MANIFEST, METRICS, FACTS, DIGESTS)
_FILES = frozenset(
    [*_TEXTS, *(f"{name}.gz" for name in _TEXTS), *(f"{name}.csv.gz" for name in TABLES)]
)
"""Names of all files that a run can have, in full or as a slim copy."""
RUNS, REFERENCE = Path("results/runs"), Path("results/reference")
RESULT_DIRS = (RUNS, REFERENCE)
"""Default folders in which runs are found: first runs made here, then committed runs. Of two runs
with the same id the first is taken."""
_MIRROR = "mlflow.db"
FAILURE = "failure.json"
_PARTIAL, _FAILED = ".partial-", ".failed-"


class StoreError(StoredDataError):
    """Failure to write or read a run; the text names the place and the way out."""


@dataclass(frozen=True, eq=False)
class StoredRun:
    """Finished run on disk. Its tables are read when they are first used."""

    path: Path
    manifest: Mapping[str, Any]
    config: Mapping[str, Any]
    metrics: Mapping[str, float]

    @property
    def run_id(self) -> str:
        """Id of the run, which is also the name of its directory."""
        return str(self.manifest["run_id"])

    @cached_property
    def records(self) -> RunRecords:
        """All records, without the tables that were ``left_out``.

        Raises:
            TableError: a table is damaged.
        """
        records = RunRecords(facts=dict(self.facts))
        for name in (name for name in TABLES if name not in self.left_out):
            attribute = "latencies_us" if name == "latencies" else name
            setattr(records, attribute, self.rows(name))
        return records

    @cached_property
    def facts(self) -> Mapping[str, float]:
        """Single numbers that only the run itself knew.

        Raises:
            StoreError: they are damaged.
        """
        return _checked(self.path / FACTS, facts_problems)

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 of every table's plain CSV, as it was written.

        Raises:
            StoreError: they are damaged.
        """
        return _checked(self.path / DIGESTS, digests_problems)

    @property
    def left_out(self) -> Mapping[str, int]:
        """Tables left out when the run was copied to the reference, with their sizes in bytes."""
        return dict(self.manifest.get("left_out") or {})

    def rows(self, name: str) -> list[Any]:
        """Return the records of one table, read again at every call; empty if it has no file.

        Raises:
            StoreError: there is no table of that name.
            TableError: it is damaged, or was left out.
        """
        path = self._table_path(name)
        return read_table(path, name) if path.exists() else []

    def table(self, name: str) -> pd.DataFrame:
        """Return one table as a data frame, read again at every call.

        Raises:
            StoreError: there is no table of that name.
            TableError: it is damaged, or was left out.
        """
        return read_frame(self._table_path(name), name)

    def table_bytes(self, name: str) -> int:
        """Return the size of a table's file (0 without a file), to decide whether reading takes
        long.

        Raises:
            StoreError: there is no table of that name.
            TableError: it was left out.
        """
        path = self._table_path(name)
        return path.stat().st_size if path.exists() else 0

    def files(self) -> list[Path]:
        """Return the files of the run itself, without logs and checkpoints of its jobs.

        Other files in the directory, such as pages or links, are not part of a run.
        """
        paths = (path for path in self.path.iterdir() if path.name in _FILES)
        return sorted(path for path in paths if path.is_file() and not path.is_symlink())

    def _table_path(self, name: str) -> Path:
        if name not in TABLES:
            raise StoreError(f"no table is called {name!r}; known: {', '.join(TABLES)}")
        if name in self.left_out:
            raise TableError(
                f"{shown(self.path)}: table {name} was left out when this run was copied (--slim);"
                f" run the point again: {spelt('harness')} --from"
                f" {shown(text_path(self.path, CONFIG))}"
            )
        return self.path / f"{name}.csv.gz"


class RunWriter:
    """Writer of one run. An unfinished ``with`` block leaves nothing half-written.

    ``path`` is the run's scratch directory; files put there become part of the run. ``manifest``
    may be changed until ``finish``. After an error, files other than the run's records (logs) are
    kept in ``.failed-<run id>``, with the reason in ``failure.json``. The error names that folder.
    """

    def __init__(self, root: Path, run_id: str, manifest: Mapping[str, Any], config: str) -> None:
        self.manifest: dict[str, Any] = {
            **manifest,
            "run_id": run_id,
            "schema_version": SCHEMA_VERSION,
            KEY: BENCHMARK_VERSION,
            "status": "running",
        }
        self._config = config
        self._final = root / run_id
        self._kept = root / f"{_FAILED}{run_id}"
        self.path = root / owned(f"{_PARTIAL}{run_id}")

    def __enter__(self) -> RunWriter:
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        return self

    def finish(self, records: RunRecords, metrics: Mapping[str, float]) -> StoredRun:
        """Write everything and put the run in its place, over an earlier run with its id.

        Raises:
            StoreError: the disk is full or cannot be written; nothing of the run is left in its
                place.
        """
        self.manifest["status"] = "finished"
        try:
            self._write(records, metrics)
            run = load_run(
                self.path
            )  # read before the move, after which another process may replace the run
            put_in_place(self.path, self._final)
            synchronise_folder(
                self._final.parent
            )  # so that the rename survives a crash of the machine
        except OSError as error:
            shutil.rmtree(self.path, ignore_errors=True)
            raise StoreError(_explain(error, self._final)) from error
        return replace(run, path=self._final)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.path.exists():
            return
        if isinstance(error, Exception) and any(self.path.iterdir()):
            with suppress(OSError):  # a full disk may be why the run failed
                _write_json(self.path / FAILURE, {"run_id": self._final.name, "reason": str(error)})
            put_in_place(self.path, self._kept)
            error.add_note(f"logs of the run are kept in {self._kept}")
        else:
            shutil.rmtree(self.path, ignore_errors=True)

    def _write(self, records: RunRecords, metrics: Mapping[str, float]) -> None:
        digests = {}
        started = time.perf_counter()
        for name in TABLES:
            rows = records.latencies_us if name == "latencies" else getattr(records, name)
            if rows:
                digests[name] = write_table(self.path / f"{name}.csv.gz", name, rows)
        self.manifest["records_write_s"] = time.perf_counter() - started
        _write_text(self.path / CONFIG, self._config)
        _write_json(self.path / DIGESTS, digests)
        _write_json(self.path / FACTS, records.facts)
        _write_json(self.path / METRICS, metrics)
        self.manifest["sha256"] = {name: sha256(self.path / name) for name in (FACTS, METRICS)}
        # The manifest comes last, because ``has_run`` takes it as proof that the run is whole.
        _write_json(self.path / MANIFEST, self.manifest, sort_keys=False)
        synchronise_folder(self.path)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal digits.

    Raises:
        OSError: it cannot be read, or is a link.
    """
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class RunStore:
    """Runs below one directory, each under its id."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, run_id: str) -> StoredRun | None:
        """Return the finished run with this id, or None.

        Raises:
            StoreError: it exists but this version cannot read it.
        """
        path = self.root / run_id
        return load_run(path) if has_run(path) else None

    def create(self, run_id: str, manifest: Mapping[str, Any], config_yaml: str) -> RunWriter:
        """Return the writer of a run, a context manager, and remove leftovers of dead processes.

        Raises:
            StoreError: the id is no directory name, or the store cannot be written.
        """
        if not run_id or run_id.startswith(".") or "/" in run_id:
            raise StoreError(f"{run_id!r} cannot name a run; use letters, digits, dash, dot")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.clear_leftovers()
        except OSError as error:
            raise StoreError(_explain(error, self.root)) from error
        return RunWriter(self.root, run_id, manifest, config_yaml)

    def clear_leftovers(self) -> list[Path]:
        """Remove the partial directories of processes of this host that are gone, and return them.

        A process that was killed between the two renames of ``put_in_place`` has left a finished
        run under the name of a replaced one. It is put back if its place is free.
        """
        gone = []
        for path in sorted(self.root.glob(f"{_PARTIAL}*")):
            stem = stem_if_left(path.name.removesuffix(REPLACED))
            if stem is None:
                continue
            place = self.root / stem.removeprefix(_PARTIAL)
            if path.name.endswith(REPLACED) and has_run(path) and not place.exists():
                with contextlib.suppress(OSError):  # another process has put a run there
                    path.rename(place)
            shutil.rmtree(path, ignore_errors=True)
            gone.append(path)
        return gone


def load_run(path: Path) -> StoredRun:
    """Open a finished run; its tables are read later.

    Everything read here comes from one run, even if other processes store runs with this id
    meanwhile.

    Raises:
        StoreError: no run is there, or another version of the program wrote it.
    """
    while True:
        before = _folder(path)
        try:
            run = _read_run(path)
        except StoreError:
            if _folder(path) == before:
                raise
            continue
        if _folder(path) == before:
            return run


def _folder(path: Path) -> tuple[int, int] | None:
    """Return numbers that identify the folder at a path; they change if another folder replaces
    it."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def _read_run(path: Path) -> StoredRun:
    manifest_path, config_path = text_path(path, MANIFEST), text_path(path, CONFIG)
    manifest = _read_json(manifest_path)
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path}: written with schema version {version}, this program reads"
            f" {SCHEMA_VERSION}; run the point again, or read it with the version that wrote it"
        )
    _refuse(manifest_path, manifest_problems(manifest))
    try:
        config = read_alike(read_text(config_path)) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StoreError(_damaged(config_path, error)) from error
    _refuse(config_path, config_problems(config))
    return StoredRun(
        path, manifest, with_current_names(config), _checked(path / METRICS, metrics_problems)
    )


def has_run(path: Path) -> bool:
    """Return whether this is the directory of a finished run: its manifest is written last."""
    return text_path(path, MANIFEST).is_file()


def run_paths(root: Path) -> Iterator[Path]:
    """Yield the directories of the runs at or below ``root``, sorted, at any depth, also in
    archives.

    If a folder does not exist but its archive does, the archive replaces it. A folder with an
    embedded MLflow store is skipped, because it holds copies of runs.

    Raises:
        StoreError: an archive cannot be unpacked, or a link lies in the folder.
    """
    waiting = [root]
    while waiting:
        path = waiting.pop()
        if path is not root and path.is_symlink():  # it may lead out of the folder, or in a circle
            raise StoreError(f"{path}: is a link; name the folder that it leads to")
        if is_archive(path):
            try:
                waiting.append(unpacked(path))
            except ArchiveError as error:
                raise StoreError(str(error)) from error
        elif has_run(path):
            yield path
        elif not path.exists() and is_archive(archive_of(path)):
            waiting.append(archive_of(path))
        elif path.is_dir() and not (path / _MIRROR).exists():
            inner = (each for each in path.iterdir() if not each.name.startswith("."))
            waiting += sorted((e for e in inner if e.is_dir() or is_archive(e)), reverse=True)


def iter_runs(root: Path) -> Iterator[StoredRun]:
    """Yield the finished runs at or below ``root``, in order of their paths.

    Raises:
        StoreError: a run cannot be read.
    """
    return map(load_run, run_paths(root))


def failed_runs(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield id and reason of each run in ``folder`` that failed and has not finished since.

    Raises:
        StoreError: the record of a failure cannot be read.
    """
    for path in sorted(folder.glob(f"{_FAILED}*/{FAILURE}")):
        told = _read_json(path)
        run_id = str(told.get("run_id"))
        if not has_run(folder / run_id):
            yield run_id, str(told.get("reason"))


def _explain(error: OSError, place: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        hint = "free some space (or raise the limit), then run the point again"
    else:
        hint = "check that the directory can be written, then run the point again"
    return f"{place}: cannot be written: {error.strerror or error}; nothing was kept; {hint}"


def _damaged(path: Path, error: Exception) -> str:
    return f"{path}: cannot be read ({error}); run the point again"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = parse_json(read_text(path))
    except FileNotFoundError as error:
        raise StoreError(f"{path} does not exist; give the directory of a finished run") from error
    except (OSError, ValueError) as error:
        raise StoreError(_damaged(path, error)) from error
    if not isinstance(value, dict):
        raise StoreError(f"{path}: holds no JSON object; run the point again")
    return value


def _checked(path: Path, problems: Callable[[Mapping[str, Any]], Iterator[str]]) -> dict[str, Any]:
    found = _read_json(path)
    _refuse(path, problems(found))
    return found


def _refuse(path: Path, problems: Iterator[str]) -> None:
    """Refuse a document that this program cannot have written; the error lists all mistakes.

    Raises:
        StoreError: there are problems.
    """
    if listed := [*problems]:
        raise StoreError(f"{path}: {'; '.join(listed)}; run the point again")


def _write_json(path: Path, value: Mapping[str, Any], sort_keys: bool = True) -> None:
    _write_text(path, json.dumps(dict(value), indent=1, sort_keys=sort_keys) + "\n")


def _write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())

"""Snapshots of a simulated replay, from which the same command goes on after a stop.

A file, one for a run, below ``.snapshots`` beside the runs: the line ``elastrace-snapshot 1``; a
line of JSON that says of which run and code it is; the pickled replay; the SHA-256 of all that; and
the user's seal on that (``seal.py``), since a pickle can call any function that it names.
Whatever is not as it should be is left aside with a word, and the run starts from its beginning.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import platform
import stat
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from harness import frozen_pickle
from harness.seal import SEAL_BYTES, is_sealed, seal

FOLDER = ".snapshots"
_MAGIC = b"elastrace-snapshot 1\n"
_TAIL_BYTES = 32 + SEAL_BYTES
_MOST_SHARE = 0.05
"""Of the wall clock that snapshots may take: one that takes long is made more seldom."""
_LIBRARIES = ("highspy", "immutables", "numpy", "sortedcontainers")
"""Whose versions can change decisions or what is inside a snapshot."""


class _UnusableError(Exception):
    """A snapshot that this run cannot go on from; the text says why."""


class Snapshots:
    """The snapshots of one run: found at its start, made now and then, removed at its end."""

    def __init__(
        self,
        path: Path,
        scratch: Path,
        run: Mapping[str, str],
        parts: Iterable[object],
        every_s: float,
        say: Callable[[str], None],
    ) -> None:
        """Nothing is read or written yet.

        Args:
            path: of the file.
            scratch: folder on the same file system, for a file that is not complete.
            run: what identifies the run (its id, the hash of its configuration).
            parts: the objects whose code decides what happens.
            every_s: least seconds of wall clock between two snapshots.
            say: shows a line.
        """
        self._path = path
        self._scratch = scratch
        self._run = dict(run)
        self._parts = {type(part) for part in parts}
        self._every_s = every_s
        self._say = say
        self._origin: dict[str, str] = {}
        self._next_s = time.perf_counter() + every_s
        self.described = ""
        """Of the last snapshot, how far the replay was; empty: there is none."""

    def load(self) -> Any:
        """What was saved, or None; says where it goes on, or why not."""
        try:
            found, self.described = self._read()
        except FileNotFoundError:
            return None
        except (_UnusableError, OSError, RuntimeError) as error:
            self._say(f"{self._path}: not used: {error}; the run starts from its beginning")
            return None
        self._say(f"Going on from a snapshot: {self.described}.")
        return found

    def due(self, now_s: float) -> bool:
        """Whether it is time for one; ``now_s`` by ``time.perf_counter``."""
        return now_s >= self._next_s

    def save(self, replay: Any, described: str) -> None:
        """Save a replay between two instants; where that fails it is said once, and the run goes
        on without."""
        began_s = time.perf_counter()
        partial = self._scratch / ".snapshot"
        try:
            self._write(partial, replay, described)
            self._path.parent.mkdir(exist_ok=True)
            partial.replace(self._path)
        except Exception as error:  # of the parts' own pickling, or of the disk: not the run's
            self._say(f"no snapshots of this run: {type(error).__name__}: {error}")
            self._next_s = float("inf")
            return
        finally:
            partial.unlink(missing_ok=True)
        self.described = described
        now_s = time.perf_counter()
        self._next_s = now_s + max(self._every_s, (now_s - began_s) / _MOST_SHARE)

    def discard(self) -> None:
        """Remove the file: the run is stored, or starts anew."""
        self._path.unlink(missing_ok=True)

    def _write(self, path: Path, replay: Any, described: str) -> None:
        header = {**self._run, **self._code(), "described": described}
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as raw:
            sink = _Sink(raw)
            with io.BufferedWriter(sink, 1 << 20) as file:
                file.write(_MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n")
                frozen_pickle.write(file, replay)
                file.flush()
                digest = sink.digest.digest()
                raw.write(digest + seal(digest))
                raw.flush()
                os.fsync(raw.fileno())

    def _read(self) -> tuple[Any, str]:
        with self._path.open("rb") as file:
            _check_owner(os.fstat(file.fileno()))
            content = file.read()
        body, digest = content[:-_TAIL_BYTES], content[-_TAIL_BYTES:-SEAL_BYTES]
        if not body.startswith(_MAGIC):
            raise _UnusableError("it is no snapshot of this version")
        if hashlib.sha256(body).digest() != digest:
            raise _UnusableError("it is damaged (its SHA-256 differs)")
        if not is_sealed(digest, content[-SEAL_BYTES:]):
            raise _UnusableError("it was written by another user, or on another machine")
        end = body.index(b"\n", len(_MAGIC)) + 1
        header = json.loads(body[len(_MAGIC) : end])
        for what, own in (("run", self._run), ("version of the code", self._code())):
            if any(header.get(key) != value for key, value in own.items()):
                raise _UnusableError(f"it is of another {what}")
        packages = frozenset(kind.__module__.partition(".")[0] for kind in self._parts)
        try:
            found = frozen_pickle.read(io.BytesIO(memoryview(body)[end:]), packages | {"harness"})
        except Exception as error:  # whatever a pickle of ours cannot be rebuilt by
            raise _UnusableError(f"{type(error).__name__}: {error}") from error
        return found, str(header["described"])

    def _code(self) -> dict[str, str]:
        if not self._origin:
            self._origin = {"code": code_digest(self._parts)}
        return self._origin


class _Sink(io.RawIOBase):
    """Keeps the digest of what is written."""

    def __init__(self, raw: io.BufferedWriter) -> None:
        self._raw = raw
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self._raw.write(data)


def code_digest(kinds: Iterable[type[Any]]) -> str:
    """SHA-256 of all that decides how a replay goes on: the sources of the packages that these
    classes and the harness are from, Python's version and those of some libraries."""
    digest = hashlib.sha256(platform.python_version().encode())
    for name in _LIBRARIES:
        try:
            digest.update(f"{name} {metadata.version(name)}\n".encode())
        except metadata.PackageNotFoundError:
            continue
    names = {kind.__module__.partition(".")[0] for kind in kinds} | {"harness"}
    for name in sorted(names):
        for path in _sources(name):
            digest.update(path.name.encode() + b"\n" + path.read_bytes())
    return digest.hexdigest()


def _sources(package: str) -> list[Path]:
    module = sys.modules.get(package)
    folders = list(getattr(module, "__path__", ()))
    if folders:
        return sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    file = None if module is None else inspect.getsourcefile(module)
    return [] if file is None else [Path(file)]


def _check_owner(status: os.stat_result) -> None:
    """A pickle is only read if nobody else could have written it."""
    if status.st_uid != os.geteuid():
        raise _UnusableError(f"it belongs to user {status.st_uid}, who may have put anything in")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _UnusableError("others may write to it; it must be writable by its owner alone")

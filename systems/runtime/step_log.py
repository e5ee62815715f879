"""What workers write down about their steps, and how it is read back. Torch-free.

``steps.jsonl``: one line per executed step, written by the first worker. A step that was
executed again after a worker's death is there twice; the later line is the one that counts.
``generations.jsonl``: one line per generation of workers: from which step it went on.
``samples-GENERATION-RANK.jsonl``: what each worker consumed in each step; its format is
described, and read, in ``harness.engines.consumed``.
``digests.jsonl``: digests of the state at some steps.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.engines.consumed import read_consumed, read_lines
from harness.failures import is_of_machine
from systems.runtime.data_order import DataOrder, Plan, Range

__all__ = [
    "LineReader",
    "LineWriter",
    "SamplesLog",
    "consumed_ids",
    "read_consumed",
    "read_lines",
    "samples_path",
]

FLUSH_EVERY_S = 1.0
_BLOCK_BYTES = 65_536
_encode = json.JSONEncoder(separators=(",", ":")).encode


class LineWriter:
    """Appends JSON lines to a file.

    They are written out about once a second and when told to; or each ``at_once``, so that
    none is lost when the process is killed: one system call on a descriptor that is kept. What a
    process that was killed left of a line is taken out first, or the next would be lost with it.

    Lines that the disk has no room for are kept, in order, and tried again with the next one.
    Only ``flush`` and ``close`` raise for them, so that nothing ends with lines unwritten.
    """

    def __init__(self, path: Path, *, at_once: bool = False) -> None:
        """Opens the file, if it is to be written at once and the disk has room for it.

        Raises:
            OSError: it cannot be opened, for another reason than a full or broken disk.
        """
        self._path = path
        self._at_once = at_once
        self._unwritten = b""
        """Whole lines."""
        self._flushed_at = time.monotonic()
        self._descriptor: int | None = None
        if at_once:
            self._try(self._opened)

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add a line."""
        self._unwritten += (_encode(entry) + "\n").encode()
        if self._at_once or time.monotonic() - self._flushed_at > FLUSH_EVERY_S:
            self.try_flush()

    def try_flush(self) -> None:
        """Write out what was added, as far as the disk has room for it."""
        self._try(self.flush)

    def flush(self) -> None:
        """Write out what was added, as one append.

        Raises:
            OSError: it cannot be written; it is kept for the next time.
        """
        self._flushed_at = time.monotonic()
        if not self._unwritten:
            return
        descriptor = self._opened()
        try:
            self._write(descriptor)
        finally:
            if not self._at_once:
                os.close(descriptor)
                self._descriptor = None

    def close(self) -> None:
        """Write out what was added and give the descriptor back. Safe to call twice.

        Raises:
            OSError: it cannot be written.
        """
        try:
            self.flush()
        finally:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _opened(self) -> int:
        """Return a descriptor of the file, which ends with a whole line."""
        if self._descriptor is None:
            self._descriptor = _open(self._path)
            _mend(self._descriptor)
        return self._descriptor

    def _write(self, descriptor: int) -> None:
        """Write all lines; where the disk has no room, whole lines only, and keep the rest."""
        lines, num_written = self._unwritten, 0
        try:
            while num_written < len(lines):
                num_written += os.write(descriptor, lines[num_written:])
        finally:
            num_whole = lines.rfind(b"\n", 0, num_written) + 1
            if num_whole < num_written:
                _mend(descriptor)
            self._unwritten = lines[num_whole:]

    @staticmethod
    def _try(action: Callable[[], object]) -> None:
        """Do it, or leave it to the next time where the machine refuses."""
        try:
            action()
        except OSError as error:
            if not is_of_machine(error):
                raise


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)


def _mend(descriptor: int) -> None:
    """Cut a file off after its last whole line."""
    start = end = os.lseek(descriptor, 0, os.SEEK_END)
    while start > 0:
        start = max(0, start - _BLOCK_BYTES)
        last = os.pread(descriptor, min(_BLOCK_BYTES, end - start), start).rfind(b"\n")
        if last >= 0:
            start += last + 1
            break
    if start < end:
        os.ftruncate(descriptor, start)


class LineReader:
    """Reads the lines of a file that grows, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def new(self) -> Iterator[dict[str, Any]]:
        """The complete lines that were added since; none if there is no such file yet."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._position += len(line)
                yield json.loads(line)


class SamplesLog:
    """What one worker of one generation consumes; no line is lost when it is killed."""

    def __init__(
        self,
        job_dir: Path,
        generation: int,
        rank: int,
        order: DataOrder,
        parts: Sequence[int] | None = None,
    ) -> None:
        """Opens the log and says in it what the ranges are ranges of.

        Args:
            job_dir: the job's.
            generation: of the membership.
            rank: of the worker, in the file's name.
            order: of the samples.
            parts: which parts of every plan the worker consumes; None: its rank's.

        Raises:
            OSError: it cannot be opened.
        """
        self._parts = (rank,) if parts is None else tuple(parts)
        self._lines = LineWriter(samples_path(job_dir, generation, rank), at_once=True)
        self._lines.add({"order": order.kind, "num_samples": order.num_samples})

    def add(self, step: int, plan: Plan) -> None:
        """What the worker is about to consume in ``step`` (counted from 1), before it does."""
        ranges = [piece for part in self._parts for piece in plan.parts[part]]
        self._lines.add({"step": step, "ranges": ranges, "epochs": plan.after.num_epochs})

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        self._lines.close()


def samples_path(job_dir: Path, generation: int, rank: int) -> Path:
    """Where a worker logs what it consumes."""
    return job_dir / f"samples-{generation:04d}-{rank:03d}.jsonl"


def consumed_ids(job_dir: Path, order: DataOrder) -> list[int]:
    """The ids of the samples that were consumed in the steps that count, by step and rank."""
    parts = read_consumed(job_dir)
    return order.ids(Range(*piece) for part in parts for piece in part.ranges)

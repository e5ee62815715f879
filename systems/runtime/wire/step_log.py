"""Workers' records of their steps, and readers for them. The module does not import torch.

``steps.jsonl``: one line per executed step, written by the first worker. A step that was executed
again after a worker's death has two lines, of which the later one counts.
``generations.jsonl``: one line per generation of workers, with the step from which it went on.
``samples-GENERATION-RANK.jsonl``: the samples that each worker consumed in each step;
``harness.engines.live.consumed_samples`` describes and reads the format.
``digests.jsonl``: digests of the state at some steps.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.engines.live.consumed_samples import read_consumed, read_lines
from harness.machine.failures import is_of_machine
from systems.runtime.wire.data_order import DataOrder, Plan, Range

__all__ = [
    "LineReader",
    "LineWriter",
    "SamplesLog",
    "consumed_ids",
    "generation_entry",
    "last_logged",
    "read_consumed",
    "read_lines",
    "samples_path",
    "step_entry",
]

FLUSH_EVERY_S = 1.0
_BLOCK_BYTES = 65_536
_TAIL_BYTES = 4096
"""More bytes than most lines of a step have."""
_encode = json.JSONEncoder(separators=(",", ":")).encode


def generation_entry(
    generation: int,
    *,
    resumed_at: int,
    num_slots: int,
    global_batch: int,
    device: str,
    num_threads: int,
) -> dict[str, Any]:
    """Return the line of a generation of workers, which goes on from step ``resumed_at``."""
    return {
        "generation": generation,
        "resumed_at": resumed_at,
        "world": num_slots,
        "global_batch": global_batch,
        "device": device,
        "threads": num_threads,
    }


def step_entry(
    step: int,
    generation: int,
    num_slots: int,
    global_batch: int,
    started: float,
    ended: float,
    loss: float,
    *,
    losses: Sequence[float] = (),
    late: bool | None = None,
) -> dict[str, Any]:
    """Return the line of a step.

    Args:
        step: number of the step, from 1.
        generation: generation that made the step.
        num_slots: number of slots of the job.
        global_batch: number of samples of the step.
        started: start of the step, on ``time.monotonic``.
        ended: end of the step, on the same clock.
        loss: mean over the global batch.
        losses: losses that the workers gave; logged if there are several.
        late: whether the step missed its pace; None: no pace.
    """
    entry: dict[str, Any] = {
        "step": step,
        "generation": generation,
        "world": num_slots,
        "global_batch": global_batch,
        "started": started,
        "duration_s": ended - started,
        "loss": loss.hex(),
    }
    if len(losses) > 1:
        entry["losses"] = [each.hex() for each in losses]
    if late is not None:
        entry["late"] = late
    return entry


def last_logged(path: Path) -> tuple[int, int]:
    """Return step and generation of the last whole line of a step log; zeros if there is none."""
    if not path.exists():
        return 0, 0
    with path.open("rb") as file:
        start, tail = file.seek(0, os.SEEK_END), b""
        while start > 0 and tail.count(b"\n") < 2:  # until the last line's start and end are read
            block = min(_TAIL_BYTES, start)
            start = file.seek(start - block)
            tail = file.read(block) + tail
    lines = tail.split(b"\n")[:-1]
    last = json.loads(lines[-1]) if lines else {"step": 0, "generation": 0}
    return int(last["step"]), int(last["generation"])


class LineWriter:
    """Appender of JSON lines to a file.

    Lines are written about once a second and on request. With ``at_once`` each is written
    immediately, by one system call on an open descriptor, so that none is lost if the process is
    killed. A partial line that a killed process left is removed first; otherwise the next line
    would be lost with it.

    Lines that the disk has no room for are kept in order, and tried again with the next one. Only
    ``flush`` and ``close`` raise an error for them, so that lines are never lost silently.
    """

    def __init__(self, path: Path, *, at_once: bool = False) -> None:
        """Open the file if lines are written at once and the disk has room for it.

        Raises:
            OSError: the file cannot be opened, for a reason other than a full or broken disk.
        """
        self._path = path
        self._at_once = at_once
        self._unwritten = b""
        """Complete lines that are still to be written."""
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
        """Write the added lines as far as the disk has room for them."""
        self._try(self.flush)

    def flush(self) -> None:
        """Write the added lines as one append.

        Raises:
            OSError: they cannot be written; they are kept for the next attempt.
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
        """Write the added lines and close the descriptor. Safe to call twice.

        Raises:
            OSError: the lines cannot be written.
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
        """Write all lines; if the disk has no room, write complete lines only and keep the rest."""
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
        """Run an action; ignore an error that is the machine's, so that it is tried again next
        time."""
        try:
            action()
        except OSError as error:
            if not is_of_machine(error):
                raise


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)


def _mend(descriptor: int) -> None:
    """Truncate a file after its last complete line."""
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
    """Reader of the lines of a growing file, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def new(self) -> Iterator[dict[str, Any]]:
        """Yield the complete lines added since the last call; none if the file does not exist
        yet."""
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
    """Log of what one worker of one generation consumes; no line is lost if the worker is
    killed."""

    def __init__(
        self,
        job_dir: Path,
        generation: int,
        rank: int,
        order: DataOrder,
        parts: Sequence[int] | None = None,
    ) -> None:
        """Open the log and record the order to which its ranges refer.

        Args:
            job_dir: folder of the job.
            generation: generation of the membership.
            rank: rank of the worker, in the file's name.
            order: order of the samples.
            parts: parts of every plan that the worker consumes; None: its rank's.

        Raises:
            OSError: the log cannot be opened.
        """
        self._parts = (rank,) if parts is None else tuple(parts)
        self._lines = LineWriter(samples_path(job_dir, generation, rank), at_once=True)
        self._lines.add({"order": order.kind, "num_samples": order.num_samples})

    def add(self, step: int, plan: Plan) -> None:
        """Record what the worker will consume in ``step`` (counted from 1); call it before the
        step."""
        ranges = [piece for part in self._parts for piece in plan.parts[part]]
        self._lines.add({"step": step, "ranges": ranges, "epochs": plan.after.num_epochs})

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        self._lines.close()


def samples_path(job_dir: Path, generation: int, rank: int) -> Path:
    """Return the path of a worker's log of consumed samples."""
    return job_dir / f"samples-{generation:04d}-{rank:03d}.jsonl"


def consumed_ids(job_dir: Path, order: DataOrder) -> list[int]:
    """Return the ids of all samples consumed in the steps that count, by step and rank."""
    parts = read_consumed(job_dir)
    return order.ids(Range(*piece) for part in parts for piece in part.ranges)

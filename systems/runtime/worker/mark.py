"""A worker's mark: its current activity, in memory that other processes can read."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.contracts.marks import DOING, IS_FIRST, LAYOUT, LEADS, SIZE, WorkerPhase


class PhaseMark:
    """Mark of one worker (``harness.contracts.marks``). Without a file no other process can read
    it."""

    __slots__ = ("_memory",)

    def __init__(self, path: str | None) -> None:
        """Create the mark in the file ``path``; None: in private memory.

        Raises:
            OSError: the file cannot be written.
        """
        self._memory: mmap.mmap | bytearray = bytearray(SIZE)
        if path is None:
            return
        named = Path(path)
        named.parent.mkdir(parents=True, exist_ok=True)
        new = named.with_name(f"{named.name}.new")
        new.write_bytes(LAYOUT.pack(WorkerPhase.PREPARE, 0, 0, os.getpid()))
        with new.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SIZE)
        # Rename last, so that a reader never finds an incomplete file under this name.
        new.replace(named)

    def now(self, doing: WorkerPhase) -> None:
        """Record what the worker does from now on. Only the training thread calls it."""
        self._memory[DOING] = doing

    @contextmanager
    def during(self, doing: WorkerPhase) -> Iterator[None]:
        """Record what the worker does within the context, then again what it did before.

        Only the training thread calls it.
        """
        before = self._memory[DOING]
        self.now(doing)
        yield
        self._memory[DOING] = before

    def first(self, is_first: bool) -> None:
        """Record whether the worker is the first one (rank 0). Only the training thread calls
        it."""
        self._memory[IS_FIRST] = is_first

    def leads(self, does: bool) -> None:
        """Record whether the worker leads the job. Any thread may call it, since only the election
        writes this byte."""
        self._memory[LEADS] = does

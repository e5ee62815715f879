"""A worker's mark: what it is doing now, in memory that others can look at."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.contracts.marks import DOING, IS_FIRST, LAYOUT, LEADS, SIZE, Doing


class Mark:
    """See ``harness.contracts.marks``. Without a file it is memory that nobody looks at."""

    __slots__ = ("_memory",)

    def __init__(self, path: str | None) -> None:
        """Args: the file, which gets its name once it is complete; None: there is none.

        Raises:
            OSError: it cannot be written.
        """
        self._memory: mmap.mmap | bytearray = bytearray(SIZE)
        if path is None:
            return
        named = Path(path)
        named.parent.mkdir(parents=True, exist_ok=True)
        new = named.with_name(f"{named.name}.new")
        new.write_bytes(LAYOUT.pack(Doing.PREPARE, 0, 0, os.getpid()))
        with new.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SIZE)
        new.replace(named)

    def now(self, doing: Doing) -> None:
        """This is what the worker does from now on. Called by the training thread alone."""
        self._memory[DOING] = doing

    @contextmanager
    def during(self, doing: Doing) -> Iterator[None]:
        """Within, this is what the worker does, and then again what it did before. Called by the
        training thread alone."""
        before = self._memory[DOING]
        self.now(doing)
        yield
        self._memory[DOING] = before

    def first(self, is_first: bool) -> None:
        """Whether it is the first worker. Called by the training thread alone."""
        self._memory[IS_FIRST] = is_first

    def leads(self, does: bool) -> None:
        """Whether it leads the job. From any thread: the byte has one writer, the election."""
        self._memory[LEADS] = does

"""Reader of the phase markers that workers on this host keep in shared memory."""

from __future__ import annotations

import mmap
from pathlib import Path

from harness.contracts.marks import DOING, IS_FIRST, LAYOUT, LEADS, SIZE, WorkerPhase
from harness.files.safe_names import file_name


class SeenMark:
    """Phase marker of one worker, still readable after the worker has died."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self.pid: int = LAYOUT.unpack(memory)[-1]

    @property
    def doing(self) -> int:
        """Present or last activity of the worker; a ``WorkerPhase``."""
        return self._memory[DOING]

    @property
    def leads(self) -> bool:
        """True if the worker leads its job."""
        return bool(self._memory[LEADS])

    @property
    def is_first(self) -> bool:
        """True if the worker is the first one (rank 0)."""
        return bool(self._memory[IS_FIRST])


class SeenMarks:
    """Phase markers in one folder, by the names of their processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, SeenMark] = {}

    def of(self, name: str) -> SeenMark | None:
        """Return the phase marker of a process; None if it has no marker (yet)."""
        found = self._seen.get(name)
        if found is None:
            try:
                with (self._folder / file_name(name)).open("rb") as file:
                    memory = mmap.mmap(file.fileno(), SIZE, access=mmap.ACCESS_READ)
            except FileNotFoundError:
                return None
            found = self._seen[name] = SeenMark(memory)
        return found

    def doing(self, name: str) -> WorkerPhase:
        """Return the present or last activity of a process."""
        found = self.of(name)
        return WorkerPhase.START if found is None else WorkerPhase(found.doing)

"""What workers write down about their steps, and how it is read back. Torch-free.

``steps.jsonl``: one line per executed step, written by the first worker. A step that was
executed again after a worker's death is there twice; the later line is the one that counts.
``generations.jsonl``: one line per generation of workers: from which step it went on.
``samples-GENERATION-RANK.jsonl``: the positions each worker consumed in each step; ids
follow from them (``data_order``).
``digests.jsonl``: digests of the state at some steps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLUSH_EVERY_S = 1.0
_encode = json.JSONEncoder(separators=(",", ":")).encode


class LineWriter:
    """Appends JSON lines to a file; writes them out about once a second and when told to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[str] = []
        self._flushed_at = time.monotonic()

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add a line."""
        self._lines.append(_encode(entry) + "\n")
        if time.monotonic() - self._flushed_at > FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Write out what was added, as one append."""
        self._flushed_at = time.monotonic()
        if self._lines:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(self._lines))
            self._lines.clear()


@dataclass(frozen=True, slots=True)
class Consumed:
    """The positions one worker consumed in one step; both ends as in ``range``."""

    step: int
    generation: int
    rank: int
    start: int
    stop: int


def samples_path(job_dir: Path, generation: int, rank: int) -> Path:
    """Where a worker logs the positions it consumes."""
    return job_dir / f"samples-{generation:04d}-{rank:03d}.jsonl"


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a file; none if there is no such file.

    The last line is left out where its writer was killed in the middle of it.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def read_consumed(job_dir: Path) -> list[Consumed]:
    """What was consumed by the steps that count, by step and rank.

    Steps after the one from which a later generation went on were lost with their workers
    and do not count.
    """
    resumed = {e["generation"]: e["resumed_at"] for e in read_lines(job_dir / "generations.jsonl")}
    found = []
    for path in sorted(job_dir.glob("samples-*.jsonl")):
        _, generation, rank = path.stem.split("-")
        later = (step for number, step in resumed.items() if number > int(generation))
        last_step = min(later, default=None)
        for entry in read_lines(path):
            if last_step is None or entry["step"] <= last_step:
                start, stop = entry["positions"]
                found.append(Consumed(entry["step"], int(generation), int(rank), start, stop))
    return sorted(found, key=lambda part: (part.step, part.rank))

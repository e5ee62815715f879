"""Samples that a live job consumed, from its workers' own logs, with those missed or repeated.

``samples-GENERATION-RANK.jsonl`` is the log of one worker in one generation (workers that train
together from one change of the membership to the next). Its first line has the ``order`` of the
samples and ``num_samples``, those of an epoch. Each other line has a ``step`` and the ``ranges``
that the worker consumed in it: [epoch, start, stop], positions in the epoch's own sequence.
``epochs`` is the number of epochs that are over after the step, by the order. A worker writes the
line before it computes the step. ``generations.jsonl`` has one line per generation; its
``resumed_at`` is the step from which the generation went on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.files.bounded_file import parse_json


@dataclass(frozen=True, slots=True)
class Consumed:
    """Samples that one worker consumed in one step."""

    step: int
    generation: int
    rank: int
    ranges: tuple[tuple[int, int, int], ...]
    """Epoch, start and stop of each range; start and stop are as in ``range``."""
    num_epochs: int
    """Epochs that are over after the step."""


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines of a file; none if there is no such file.

    The last line is left out if its writer was killed while writing it.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield parse_json(line)


def read_consumed(job_dir: Path) -> list[Consumed]:
    """Return what the steps that count consumed, by step and rank.

    Steps after the one from which a later generation went on do not count, because they were lost
    with their workers.
    """
    resumed = {e["generation"]: e["resumed_at"] for e in read_lines(job_dir / "generations.jsonl")}
    found = []
    for path in sorted(job_dir.glob("samples-*.jsonl")):
        _, generation, rank = path.stem.split("-")
        later = (step for number, step in resumed.items() if number > int(generation))
        # The least one: a later recovery may have gone back further than the next generation began.
        last_step = min(later, default=None)
        for entry in read_lines(path):
            if "step" in entry and (last_step is None or entry["step"] <= last_step):
                ranges = tuple(map(tuple, entry["ranges"]))
                part = Consumed(entry["step"], int(generation), int(rank), ranges, entry["epochs"])
                found.append(part)
    return sorted(found, key=lambda part: (part.step, part.rank))


def count_samples(job_dir: Path, num_steps: int) -> tuple[int, int] | None:
    """Return the samples missed in the epochs that are over, and the samples repeated in any epoch.

    Both follow from the workers' logs alone. They hold for every order of the samples, because an
    epoch's sequence has every sample once. ``num_steps`` is the number of steps that the job
    executed; lines of later steps, which never ended, are left out. None: nothing was logged.
    """
    sizes = {
        entry["num_samples"]
        for path in job_dir.glob("samples-*.jsonl")
        for entry in read_lines(path)
        if "num_samples" in entry
    }
    if not sizes:
        return None
    (num_samples,) = sizes
    times: dict[int, npt.NDArray[np.int32]] = {}
    num_epochs = 0
    for part in read_consumed(job_dir):
        # The parts are sorted by step, so all that follow are of steps that never ended.
        if part.step > num_steps:
            break
        num_epochs = max(num_epochs, part.num_epochs)
        for epoch, start, stop in part.ranges:
            if epoch not in times:
                times[epoch] = np.zeros(num_samples, np.int32)
            times[epoch][start:stop] += 1
    never = np.zeros(num_samples, np.int32)
    missed = sum(int((times.get(epoch, never) == 0).sum()) for epoch in range(num_epochs))
    repeated = sum(int(np.maximum(seen - 1, 0).sum()) for seen in times.values())
    return missed, repeated

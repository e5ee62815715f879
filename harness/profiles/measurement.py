"""Options of the measurement of a profile on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.contracts.process import Warmth
from harness.errors import Problem, UserError


@dataclass(frozen=True)
class Measurement:
    """Options of a measurement.

    Raises:
        UserError: all options that are out of range, at once.
    """

    name: str
    folder: Path
    """Folder for the traces of one job."""
    pool: str
    workloads: tuple[str, ...]
    """Workloads of the pool to measure; empty: all."""
    batches: tuple[int, ...]
    sizes: tuple[int, ...]
    cluster: str
    backends: tuple[str, ...]
    """Backends whose costs are measured; the speed under the first is the throughput."""
    warmths: tuple[Warmth, ...]
    """Warmths of workers to measure; each is measured on the backends that support it. Empty: as
    configured."""
    placements: tuple[str, ...]
    """Options of the group placement; empty: as configured. Speeds on several hosts are recorded
    separately from those on one."""
    trials: int
    steps: int
    """Steps that count each time the job trains at a size."""
    steps_of: Mapping[str, int] = field(default_factory=dict)
    """Values of ``steps`` for single workloads, whose steps are much shorter or longer than
    others'."""
    words: tuple[str, ...] = ()
    """Further overrides of every run."""

    def __post_init__(self) -> None:
        problems: list[Problem | str] = []
        for option, numbers in (("--sizes", self.sizes), ("--batches", self.batches)):
            if not numbers or min(numbers) < 1 or len(set(numbers)) < len(numbers):
                fact = f"is {' '.join(map(str, numbers)) or 'empty'}"
                problems.append(Problem(option, fact, "give different numbers from 1 up"))
        if self.sizes and self.batches and max(self.sizes) > min(self.batches):
            fact = f"go up to {max(self.sizes)}, and a batch is {min(self.batches)}"
            problems.append(Problem("--sizes", fact, "every worker needs at least 1 sample"))
        if self.trials < max(1, len(self.sizes)):
            fact = f"is {self.trials} for {len(self.sizes)} sizes"
            problems.append(
                Problem("--trials", fact, "give at least one for each size to begin at")
            )
        for steps in (self.steps, *self.steps_of.values()):
            if steps < 5:
                problems.append(Problem("--steps", f"is {steps}", "give at least 5"))
        if problems:
            raise UserError(problems)

"""Settings of the overhead study, from ``configs/bench/overhead.yaml``, overridden by flags."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import yaml

from harness.configuration.coerce import MismatchError, coerce, show
from harness.configuration.compose import CONFIG_DIR
from harness.configuration.moved_modules import recorded_name
from harness.errors import Problem, UserError, suggest

DEFAULTS = CONFIG_DIR / "bench" / "overhead.yaml"
LEAST_COUNTED = 5
"""Steps that each program must have in a round for the round to count."""

_LONGEST_TURN_S = 60.0
"""Longest turn, seconds. With a longer one, processes that wait for a stopped program could run
into their time-outs."""


@dataclass(frozen=True)
class Settings:
    """Options of the overhead study.

    Raises:
        UserError: all options that are out of range, at once.
    """

    reference: str
    """Module of the stand-alone script, run with ``python -m``."""
    backend: str
    cluster: str
    workloads: tuple[str, ...]
    """Workloads, each as ``POOL/NAME``."""
    workers: tuple[int, ...]
    batch: int
    trials: int
    steps: int
    """Steps of a program in a trial."""
    drop: int
    """First steps of a program that do not count."""
    turn_s: float
    """Length of a turn, seconds: how long one program runs while the others are stopped."""
    steps_of: Mapping[str, int] = field(default_factory=dict)
    """Steps by workload, for workloads that need a number other than ``steps``."""
    turn_s_of: Mapping[str, float] = field(default_factory=dict)
    """Length of a turn by workload, for workloads that need a length other than ``turn_s``."""
    logical: int = 0
    """Logical workers of the job, for a backend whose workers are virtual; 0: one for each worker.
    If they are more than the workers, the plain script accumulates as many micro-batches."""
    seed: int = 0
    """Seed of the order of trials, and of training."""
    max_trials: int = 0
    """Largest number of trials of a cell. The trials of undecided cells are doubled up to this
    number; 0: every cell has ``trials``."""
    margin: float = 0.01
    """Share of a step within which the backend counts as equivalent to the plain script."""

    def __post_init__(self) -> None:
        problems: list[Problem | str] = []
        for name in self.workloads:
            pool, slash, workload = name.partition("/")
            if not (pool and slash and workload):
                problems.append(Problem("--workloads", f"{name!r}", "write POOL/NAME: tiny/bert"))
        numbers = self.workers
        if not numbers or min(numbers) < 1 or len(set(numbers)) < len(numbers):
            fact = f"is {' '.join(map(str, numbers)) or 'empty'}"
            problems.append(Problem("--workers", fact, "give different numbers from 1 up"))
        elif max(numbers) > self.batch:
            fact = f"is {self.batch} for {max(numbers)} workers"
            problems.append(Problem("--batch", fact, "every worker needs at least 1 sample"))
        uneven = [number for number in numbers if self.logical and self.logical % max(1, number)]
        if uneven or self.logical < 0:
            fact = f"is {self.logical} for {' and '.join(map(str, uneven)) or 'any'} workers"
            hint = (
                "give a multiple of every number of workers, or 0 for one logical worker per worker"
            )
            problems.append(Problem("--logical", fact, hint))
        elif self.logical > self.batch:
            fact = f"is {self.batch} for {self.logical} logical workers"
            problems.append(Problem("--batch", fact, "each logical worker needs at least 1 sample"))
        if not self.workloads or len(set(self.workloads)) < len(self.workloads):
            problems.append(
                Problem("--workloads", "is empty or has a name twice", "name each once")
            )
        if self.trials < 1:
            problems.append(Problem("--trials", f"is {self.trials}", "give 1 or more"))
        if self.max_trials and self.max_trials < self.trials:
            fact = f"is {self.max_trials}, and the first look is at {self.trials}"
            problems.append(Problem("--until", fact, "give at least as many"))
        if not 0 < self.margin < 1:
            problems.append(Problem("--margin", f"is {self.margin}", "give a share such as 0.01"))
        for name, turn_s in {"": self.turn_s, **self.turn_s_of}.items():
            if not 0 < turn_s <= _LONGEST_TURN_S:
                fact = f"{f'of {name} ' if name else ''}is {turn_s}"
                hint = f"give seconds above 0, at most {_LONGEST_TURN_S:g}"
                problems.append(Problem("--turn", fact, hint))
        if self.drop < 1:
            problems.append(
                Problem(
                    "--drop", f"is {self.drop}", "give at least 1: the first step always warms up"
                )
            )
        for name, steps in {"": self.steps, **self.steps_of}.items():
            if steps < self.drop + LEAST_COUNTED:
                fact = f"{f'of {name} ' if name else ''}is {steps}, {self.drop} are dropped"
                hint = f"give at least {self.drop + LEAST_COUNTED}"
                problems.append(Problem("--steps", fact, hint))
        if problems:
            raise UserError(problems)

    @property
    def recorded_reference(self) -> str:
        """Name that records have for the stand-alone script, so that a move outdates no trial."""
        return recorded_name(self.reference)

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of trials after which the tests decide whether to continue."""
        found = [self.trials]
        while found[-1] < self.max_trials:
            found.append(min(2 * found[-1], self.max_trials))
        return tuple(found)

    def num_steps(self, workload: str) -> int:
        """Return the steps of a program that trains this workload."""
        return self.steps_of.get(workload, self.steps)

    def turn_of(self, workload: str) -> float:
        """Return the length of a turn of programs that train this workload, seconds."""
        return self.turn_s_of.get(workload, self.turn_s)


def read_settings(**given: Any) -> Settings:
    """Return the defaults of the file, overridden by the given values; None means not given.

    Raises:
        UserError: the file or a value is wrong; all mistakes at once.
    """
    document = yaml.safe_load(DEFAULTS.read_text(encoding="utf-8"))
    values = {**document, **{key: value for key, value in given.items() if value is not None}}
    hints = typing.get_type_hints(Settings)
    known = {f.name for f in fields(Settings)}
    problems: list[Problem | str] = []
    for key, value in values.items():
        if key not in known:
            problems.append(Problem(f"{DEFAULTS.name}: {key}", "unknown key", suggest(key, known)))
            continue
        try:
            values[key] = coerce(value, hints[key])
        except MismatchError as mismatch:
            hint = f"give {mismatch}"
            problems.append(Problem(f"{DEFAULTS.name}: {key}", f"is {show(value)}", hint))
    if problems:
        raise UserError(problems)
    return Settings(**values)

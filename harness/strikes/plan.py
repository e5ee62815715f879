"""Plan of the strikes on one run, drawn from the trial's number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

_STREAM: Final = 0x57B1
"""Part of the seed that separates the draws of trials from those of other programs."""
_FEWEST: Final = 10
_MOST: Final = 24
"""Largest number of strikes in a trial; ``_FEWEST`` is the smallest."""
_FEWEST_S: Final = 0.2
_MOST_S: Final = 2.5
"""Largest number of seconds between two strikes; ``_FEWEST_S`` is the smallest. The range covers
strikes during a change of workers and well after one."""


class Victim(StrEnum):
    """Targets of a strike."""

    WORKER = "worker"
    STORE = "store"
    """The process through which the workers of a job elect their leader."""
    FORK_SERVER = "fork server"
    DRIVER = "driver"
    """The command's own process."""
    DISK = "disk"


class How(StrEnum):
    """Kinds of a strike."""

    KILL = "kill"
    """SIGKILL."""
    STOP = "stop"
    """SIGSTOP; the driver is continued after some seconds, other processes are not."""
    FILL = "fill"
    """The results' disk is full for some seconds."""


CHECKS_BITS: Final = "engine.check_reference=true"
_ELASTIC: Final = ("scheduler=uniform", "scheduler.use_throughput=false")
BACKENDS: Final[Mapping[str, Sequence[str]]] = {
    "static": ("backend=static", "backend.start=preimported", "scheduler=fifo"),
    "stop_resume": (
        *_ELASTIC,
        "backend=stop_resume",
        "backend.start=preimported",
        "backend.checkpoint_every=200",
    ),
    "warm_restart": (*_ELASTIC, "backend=warm_restart", "backend.checkpoint_every=200"),
    "torchrun": (*_ELASTIC, "backend=torchrun", "backend.checkpoint_every=200"),
    "stop_free": (*_ELASTIC, "backend=stop_free", "backend.start=preimported"),
    # A run compares the bits of every job with those of stock training on fixed workers.
    "virtual_thread": (
        *_ELASTIC,
        "backend=virtual_thread",
        "backend.start=preimported",
        CHECKS_BITS,
    ),
}
"""Overrides of a run under each backend."""

_STRIKES: Final = (
    (Victim.WORKER, How.KILL),
    (Victim.WORKER, How.STOP),
    (Victim.STORE, How.KILL),
    (Victim.STORE, How.STOP),
    (Victim.FORK_SERVER, How.KILL),
    (Victim.FORK_SERVER, How.STOP),
    (Victim.DRIVER, How.KILL),
    (Victim.DRIVER, How.STOP),
    (Victim.DISK, How.FILL),
)
_SHARES: Final = (0.30, 0.18, 0.10, 0.08, 0.10, 0.08, 0.03, 0.06, 0.07)


@dataclass(frozen=True, slots=True)
class Strike:
    """One strike of a trial."""

    victim: Victim
    how: How
    after_s: float
    """Seconds since the previous strike, or since the start of the first worker."""
    lasting_s: float
    """Seconds until a stopped driver is continued or a disk has room again; else unused."""
    choice: float
    """Choice among several victims: a share of their number, in [0, 1)."""


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """A backend to run, and the strikes on its run."""

    number: int
    backend: str
    strikes: tuple[Strike, ...]

    def record(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return asdict(self)


def draw(number: int, *, can_fill: bool) -> TrialPlan:
    """Draw the plan of one trial; equal numbers give equal plans.

    Args:
        number: number of the trial, from 0.
        can_fill: whether this machine has a small disk to fill; without one workers are killed.
    """
    rng = np.random.default_rng([number, _STREAM])
    names = sorted(BACKENDS)
    strikes = []
    for _ in range(int(rng.integers(_FEWEST, _MOST + 1))):
        victim, how = _STRIKES[int(rng.choice(len(_STRIKES), p=_SHARES))]
        if victim is Victim.DISK and not can_fill:
            victim, how = Victim.WORKER, How.KILL
        after_s, lasting_s = float(rng.uniform(_FEWEST_S, _MOST_S)), float(rng.uniform(0.5, 4.0))
        strikes.append(Strike(victim, how, after_s, lasting_s, float(rng.random())))
        if (victim, how) == (Victim.DRIVER, How.KILL):
            break  # the run ends with its driver
    return TrialPlan(number, names[number % len(names)], tuple(strikes))

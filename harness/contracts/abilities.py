"""Abilities of a backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Abilities:
    """Abilities of a backend. The run is refused if the scheduler needs an ability that is missing.

    Only a backend with ``rescale`` and ``survive`` ever shrinks a grant.
    """

    rescale: bool = False
    suspend: bool = False
    migrate: bool = False
    change_batch: bool = False
    adapt_batch: bool = False
    """True if a job can choose its own batch and learning rate while it trains."""
    share_device: bool = False
    """True if workers of several jobs can run on slots of one device."""
    logical_workers: bool = False
    """True if a job runs its logical workers as virtual workers, on at most that many slots."""
    survive: bool = False
    """True if a job goes on with its other workers when some of them die."""
    drawn_samples: bool = False
    """True if samples may depend on the random states of the process that fetches them."""


@dataclass(frozen=True, slots=True)
class Phases:
    """Phases that a backend times in every change of a kind, in the order in which they begin."""

    start: tuple[str, ...]
    """Phases of a START or RESUME."""
    rescale: tuple[str, ...]
    """Phases of every RESCALE; a RESCALE with newcomers has more."""
    suspend: tuple[str, ...]
    stopped: tuple[str, ...]
    """Phases of a RESCALE, if present in it, in which the workers that stay do not train. Their sum
    is the stopping time."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Program that trains a job on a fixed number of workers and shares no code with any backend.
    The bits of a backend are compared with its result (``engine.check_reference``).

    The engine runs it on this machine as ``python -m MODULE TARGET --options JSON --workers N
    --cores C.. --batch B --steps S --seed SEED --out FILE`` and ``words``. The arguments are the
    workload's class and options, the number of workers with a core for each, their global batch,
    the steps and the seed.

    The program writes FILE, as JSON lines, before it ends. Each step has a line with ``loss`` (mean
    over the global batch) and ``losses`` (one for each worker), as ``float.hex``. The last line has
    the digests of the state by name (``digest_...``), as in a job's results.
    """

    module: str
    words: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the program; they choose the kernels that libraries may use."""

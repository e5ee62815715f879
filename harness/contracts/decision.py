"""Decision of a scheduler: the grants that change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from harness.contracts.frozen import frozen


@frozen
class Grant:
    """Number of slots that a job is given, with optional details."""

    num_slots: int
    slots: tuple[int, ...] | None = None
    """Exact slots, used as given; None: the placement chooses."""
    device_type: str | None = None
    share: float = 1.0
    """Share of each device on which its slots lie. At 1 the job begins on devices that no other job
    uses. Below 1, with ``slots`` named, other jobs may use them too (``Cluster.shared_speed``)."""
    global_batch: int | None = None
    """Global batch; None: the job's own, under the run's scaling rule."""
    virtual_workers: tuple[int, ...] | None = None
    """Virtual workers of each slot; their sum is the job's logical workers. They are in the order
    of ``slots``, or in rank order where the placement chooses. None: the grant has no plan."""


@frozen
class Suspend:
    """Action that takes all slots of a job; the job keeps its progress and waits."""


@frozen
class Refuse:
    """Action that ends a job to which nothing has been promised (admission control).

    Such a job has used no slots yet, unless the scheduler declares by ``refuses_late`` that it
    answers later.
    """

    reason: str


@frozen
class Decision:
    """Changes of grants; a job that is not listed keeps its grant.

    If a decision both frees and needs slots, the replay starts the newcomers once the freed slots
    are really free, in the order of ``changes``.
    """

    changes: Mapping[str, Grant | Suspend | Refuse] = field(default_factory=dict)
    wake_s: float | None = None
    """Time on the engine's clock at which to ask again even if nothing happens, in seconds."""

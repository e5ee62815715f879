"""Placement: which slots form a grant."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.cluster import Cluster


class FreeSlots(Protocol):
    """Free slots by host, as a placement sees them (``harness/replay/occupancy.py``). Where jobs
    may share devices, the free slots are one slot of each device that no job uses."""

    @property
    def num_free(self) -> int:
        """Total number of free slots."""
        ...

    def on_host(self, host: int) -> Sequence[int]:
        """Return the free slots of one host, ascending."""
        ...

    def hosts_with(self, num_free: int) -> Sequence[int]:
        """Return the hosts with exactly ``num_free`` free slots, ascending."""
        ...


class Placement(Protocol):
    """Rule that turns a number of slots into specific slots. Implementations:
    ``systems/placements/``."""

    def place(
        self,
        num_slots: int,
        cluster: Cluster,
        free: FreeSlots,
        held: tuple[int, ...] = (),
        device_type: str | None = None,
    ) -> tuple[int, ...] | None:
        """Return slots for a job that now holds ``held``, or None if there are too few now. The
        slots in ``held`` are never in ``free``.

        A job that grows keeps its held slots. A job that shrinks gets a part of ``held``. The
        result is in the order of ranks: kept slots first, in their old order.
        """
        ...


@dataclass(frozen=True, slots=True)
class Occupant:
    """Job whose slots the placement chooses, as a placement that moves jobs sees it."""

    job_id: str
    num_slots: int
    """Slots that the job is to have."""
    slots: tuple[int, ...] = ()
    """Slots that the job holds, or will hold once its change in flight is done; in rank order."""
    device_type: str | None = None


@runtime_checkable
class Arranging(Placement, Protocol):
    """Placement that moves jobs to make room for others, on backends that can migrate.

    The replay calls ``place`` only for a job that shrinks.
    """

    def arrange(
        self,
        cluster: Cluster,
        free: FreeSlots,
        leaving: Collection[int],
        waiting: Sequence[Occupant],
        settled: Sequence[Occupant],
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the slots of jobs that are to have more, and of jobs that move for them.

        A change begins as soon as each of its new slots is free or already held by its job. The
        replay calls ``arrange`` again whenever something has happened and remembers nothing of the
        result. No two jobs of a result may wait for each other's slots.

        Args:
            cluster: the cluster of the run.
            free: slots that no job holds.
            leaving: slots that changes in flight give up; not free yet.
            waiting: jobs that are to have more slots than they hold, in the order of the decisions.
                The free slots are enough for all of them.
            settled: jobs that may be moved, each with as many slots as it holds.

        Returns:
            Slots in rank order, by job: for some jobs of ``waiting``, while the others wait, and
            for the jobs of ``settled`` that are to move.
        """
        ...

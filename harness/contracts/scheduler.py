"""Scheduler and placement: who gets how many slots, and which.

A scheduler performs no I/O, reads no clock and changes nothing it was given. It cannot ask
which engine runs. Private state is built only from the views it has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from harness.cluster import Cluster
from harness.contracts.engine import Event, JobState
from harness.frozen import frozen
from harness.trace.job import JobSpec


class Knowledge(StrEnum):
    """What a scheduler may ask to know beyond arrivals, requests and attained service."""

    REMAINING_WORK = "remaining_work"
    DEADLINE = "deadline"
    THROUGHPUT = "throughput"
    GRADIENT_NOISE = "gradient_noise"
    """The noise scale of a job's gradients, which says how far larger batches help."""


class Requirement(StrEnum):
    """Abilities of the backend without which a scheduler cannot work (fields of Abilities).

    SHARE_DEVICE asks for a cluster as well on which jobs may share devices
    (``Cluster.shared_speed``); who does not ask for it is given such a cluster with one slot a
    device, so that nobody shares one unawares.
    """

    RESCALE = "rescale"
    SUSPEND = "suspend"
    MIGRATE = "migrate"
    CHANGE_BATCH = "change_batch"
    SHARE_DEVICE = "share_device"


class Checked(StrEnum):
    """How far a scheduler was checked against its source. Its class says so by ``checked``, and by
    ``bound = True`` that it knows what no system can know and stands for what none can reach."""

    EXACT = "exact"
    """On the worked examples of its source."""
    COMPARED = "compared"
    """Decisions with those of an independent implementation, or with an oracle."""
    DESCRIBED = "described"
    """There is only prose to go by."""


class Throughput(Protocol):
    """Throughput curve of one job, as schedulers are told it; jobs may train at other speeds."""

    def samples_per_s(
        self, num_slots: int, global_batch: int | None = None, device_type: str | None = None
    ) -> float:
        """T(w), samples per second on ``num_slots`` slots; 0 on 0 slots.

        ``global_batch`` None means the job's own. ``device_type`` None means the device that the
        profile is of; so does a type whose speed the profile does not know apart. Need not grow
        with ``num_slots``.
        """
        ...


@frozen
class Grant:
    """What a job is given."""

    num_slots: int
    slots: tuple[int, ...] | None = None
    """Exact slots, obeyed as they are; None: the placement chooses."""
    device_type: str | None = None
    share: float = 1.0
    """Share of each device that its slots lie on. At 1 it begins on devices that no other job is
    on. Below 1, with ``slots`` named, others may be there (``Cluster.shared_speed``)."""
    global_batch: int | None = None
    """None: the job's own, under the run's scaling rule."""
    virtual_workers: tuple[int, ...] | None = None
    """Virtual workers of each slot, all of the job's logical workers together: in the order of
    ``slots``, or in rank order where the placement chooses; None: no plan."""


@frozen
class Suspend:
    """Take all slots; the job keeps its progress and waits."""


@frozen
class Refuse:
    """End a job that has never been promised anything (admission control).

    It has used no slots yet, unless the scheduler says by ``refuses_late`` that it answers later.
    """

    reason: str


@frozen
class Decision:
    """Only the jobs whose grant should change; all others keep what they have.

    Where a decision both frees and needs slots, the replay starts the newcomers, in this
    mapping's order, as soon as the freed slots are really free.
    """

    changes: Mapping[str, Grant | Suspend | Refuse] = field(default_factory=dict)
    wake_s: float | None = None
    """When to be asked again even if nothing happens; absolute, on the engine's clock."""


@frozen
class JobView:
    """One job as a scheduler sees it, at the time of its last change.

    Undeclared knowledge is absent: without DEADLINE ``spec`` has no deadline; without
    REMAINING_WORK its ``work_samples`` and ``duration_s`` are withheld (``work_samples`` is
    infinite) and ``remaining_samples`` is infinite; without THROUGHPUT ``throughput`` is None;
    without GRADIENT_NOISE so is ``noise_scale``.
    Work is what the job's owner states, which may be wrong (``stated_work_ratio``): a job can
    end before it, or go on with nothing remaining.
    """

    spec: JobSpec
    state: JobState
    grant: Grant | None
    """What the scheduler last granted (its own decision, reached or still under way)."""
    slots: tuple[int, ...]
    """Slots really held."""
    as_of_s: float
    """Time at which the counters below were true."""
    attained_slot_s: float
    """Slot-seconds held until ``as_of_s``."""
    executed_s: float
    """Seconds with slots until ``as_of_s``."""
    samples_done: float
    samples_per_s: float
    """Present rate, as measured; 0 while the job does not train."""
    waiting_since_s: float
    """Since when it has held no slots (arrival, or the last suspension)."""
    throughput: Throughput | None = None
    noise_scale: float | None = None
    """Gradient noise scale by the run's profile, samples (Pollux); None: it does not say."""

    @property
    def job_id(self) -> str:
        """Identity of the job."""
        return self.spec.job_id

    def attained_service_slot_s(self, now_s: float) -> float:
        """Attained service at ``now_s``, slot-seconds (Tiresias)."""
        return self.attained_slot_s + len(self.slots) * (now_s - self.as_of_s)

    def executed_time_s(self, now_s: float) -> float:
        """Seconds with slots at ``now_s``."""
        return self.executed_s + (now_s - self.as_of_s if self.slots else 0.0)

    def remaining_samples(self, now_s: float) -> float:
        """Work left at ``now_s``, samples."""
        done = self.samples_done + self.samples_per_s * (now_s - self.as_of_s)
        return max(0.0, self.spec.work_samples - done)


@frozen
class ClusterView:
    """The picture a decision is made from; immutable and persistent.

    ``jobs`` holds every job that has arrived and not ended. It is a persistent map: keeping
    an old view is safe and cheap, and a decision need only look at ``news``.
    """

    time_s: float
    cluster: Cluster
    jobs: Mapping[str, JobView]
    news: Sequence[Event]
    """What happened since the last decision, in order."""
    down_slots: frozenset[int] = frozenset()
    num_granted: int = 0
    """Slots promised by present grants (decided, reached or not)."""
    in_flight: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Jobs with a change in flight, and all slots which that change holds."""

    @property
    def num_usable(self) -> int:
        """Slots that are up."""
        return self.cluster.num_slots - len(self.down_slots)

    @property
    def num_free(self) -> int:
        """Slots that no grant has claimed."""
        return self.num_usable - self.num_granted


class Scheduler(Protocol):
    """The deciding rule. One object serves one run. Implementations: ``systems/schedulers/``."""

    @property
    def needs(self) -> frozenset[Knowledge]:
        """What it must know; everything else is withheld from its views."""
        ...

    @property
    def requires(self) -> frozenset[Requirement]:
        """What the backend must be able to do."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether it is asked after every PROGRESS and CHANGE_DONE too, which costs a decision
        for each report of each job; most need only what arrives, ends or fails."""
        ...

    def decide(self, view: ClusterView) -> Decision:
        """The grants that should change now. Same views, same decisions."""
        ...


class FreeSlots(Protocol):
    """Free slots by host, as a placement sees them (``harness/replay/occupancy.py``): of devices
    that jobs may share, one slot of each that no job is on."""

    @property
    def num_free(self) -> int:
        """Free slots in all."""
        ...

    def on_host(self, host: int) -> Sequence[int]:
        """Free slots of one host, ascending."""
        ...

    def hosts_with(self, num_free: int) -> Sequence[int]:
        """Hosts with exactly ``num_free`` free slots, ascending."""
        ...


class Placement(Protocol):
    """Turns a count into slots. Implementations: ``systems/placements/``."""

    def place(
        self,
        num_slots: int,
        cluster: Cluster,
        free: FreeSlots,
        held: tuple[int, ...] = (),
        device_type: str | None = None,
    ) -> tuple[int, ...] | None:
        """Slots for one job that now holds ``held`` (never in ``free``), or None if they
        are not to be had now.

        When growing, held slots are kept; when shrinking, the answer is a part of ``held``.
        The order of the answer is the order of ranks: kept slots first, in their old order.
        """
        ...


@dataclass(frozen=True, slots=True)
class Occupant:
    """A job whose slots the placement chooses, as one that moves jobs sees it."""

    job_id: str
    num_slots: int
    """That it is to have."""
    slots: tuple[int, ...] = ()
    """That it holds, or will hold once its change in flight is done; in rank order."""
    device_type: str | None = None


@runtime_checkable
class Arranging(Placement, Protocol):
    """A placement that moves jobs to make room for others, on backends that can migrate.

    It is asked for ``place`` only where a job shrinks.
    """

    def arrange(
        self,
        cluster: Cluster,
        free: FreeSlots,
        leaving: Collection[int],
        waiting: Sequence[Occupant],
        settled: Sequence[Occupant],
    ) -> Mapping[str, tuple[int, ...]]:
        """Slots of those that are to have more, and of those that move for them.

        A change begins as soon as its new slots are free, or its job's own; who waits is asked for
        again whenever something has happened, so nothing of an answer is remembered. No two jobs
        of an answer may wait for each other's slots.

        Args:
            cluster: where.
            free: what nobody holds.
            leaving: slots that changes in flight give up; not free yet.
            waiting: jobs that are to have more slots than they hold, in the order of the
                decisions. The free slots are enough for all of them.
            settled: jobs that may be moved, each with as many slots as it holds.

        Returns:
            Slots in rank order, by job: of jobs in ``waiting``, the others wait; and of those in
            ``settled`` that are to move.
        """
        ...

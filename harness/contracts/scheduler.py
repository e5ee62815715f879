"""Scheduler and placement: how many slots each job gets, and which slots.

A scheduler performs no I/O, reads no clock and leaves its input unchanged. It cannot ask which
engine runs. It builds private state only from the views that it has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from harness.cluster import Cluster
from harness.contracts.engine import Event, JobState
from harness.contracts.frozen import frozen
from harness.contracts.job import JobSpec


class Knowledge(StrEnum):
    """Knowledge that a scheduler may request, beyond arrivals, requests and attained service."""

    REMAINING_WORK = "remaining_work"
    DEADLINE = "deadline"
    THROUGHPUT = "throughput"
    GRADIENT_NOISE = "gradient_noise"
    """Noise scale of a job's gradients, which says how far larger batches help."""


class Requirement(StrEnum):
    """Abilities that a scheduler needs from the backend (fields of ``Abilities``).

    SHARE_DEVICE also asks for a cluster whose devices jobs may share (``Cluster.shared_speed``). A
    scheduler that does not ask for it gets such a cluster with one slot per device, so that its
    jobs never share a device.
    """

    RESCALE = "rescale"
    SUSPEND = "suspend"
    MIGRATE = "migrate"
    CHANGE_BATCH = "change_batch"
    SHARE_DEVICE = "share_device"


class Checked(StrEnum):
    """Levels to which a scheduler was checked against its source; the class has it in ``checked``.

    A class with ``oracle = True`` uses knowledge that real systems lack. Its results are a bound
    that they cannot reach.
    """

    EXACT = "exact"
    """Checked on the worked examples of its source."""
    COMPARED = "compared"
    """Decisions compared with those of an independent implementation, or with an oracle."""
    DESCRIBED = "described"
    """Checked against prose only, because the source offers nothing else."""


class Throughput(Protocol):
    """Throughput curve of one job, as schedulers see it; jobs may train at other speeds."""

    def samples_per_s(
        self, num_slots: int, global_batch: int | None = None, device_type: str | None = None
    ) -> float:
        """Return T(w), samples per second on ``num_slots`` slots; 0 on 0 slots.

        ``global_batch`` None means the job's own. ``device_type`` None means the device type of the
        profile. So does any type for which the profile has no speed of its own. T(w) may fall as
        ``num_slots`` grows.
        """
        ...


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


@frozen
class JobView:
    """One job as a scheduler sees it, at the time of the job's last change.

    Undeclared knowledge is withheld. Without DEADLINE, ``spec`` has no deadline. Without
    REMAINING_WORK, ``work_samples`` and ``remaining_samples`` are infinite and ``duration_s`` is
    withheld. Without THROUGHPUT, ``throughput`` is None; without GRADIENT_NOISE, ``noise_scale`` is
    None.

    Work is what the job's owner states, which may be wrong (``stated_work_ratio``). A job can end
    before its stated work is done, or go on with nothing remaining.
    """

    spec: JobSpec
    state: JobState
    grant: Grant | None
    """Grant that the scheduler decided last, reached or still under way."""
    slots: tuple[int, ...]
    """Slots that the job really holds."""
    as_of_s: float
    """Time for which the counters below are true."""
    attained_slot_s: float
    """Slot-seconds held until ``as_of_s``."""
    executed_s: float
    """Seconds with slots until ``as_of_s``."""
    samples_done: float
    samples_per_s: float
    """Present rate, as measured; 0 while the job does not train."""
    waiting_since_s: float
    """Time since which the job has held no slots (arrival, or the last suspension)."""
    throughput: Throughput | None = None
    noise_scale: float | None = None
    """Gradient noise scale by the run's profile, in samples (Pollux); None: unknown."""

    @property
    def job_id(self) -> str:
        """Identity of the job."""
        return self.spec.job_id

    def attained_service_slot_s(self, now_s: float) -> float:
        """Return the attained service at ``now_s``, in slot-seconds (Tiresias)."""
        return self.attained_slot_s + len(self.slots) * (now_s - self.as_of_s)

    def executed_time_s(self, now_s: float) -> float:
        """Return the seconds with slots until ``now_s``."""
        return self.executed_s + (now_s - self.as_of_s if self.slots else 0.0)

    def remaining_samples(self, now_s: float) -> float:
        """Return the work left at ``now_s``, in samples."""
        done = self.samples_done + self.samples_per_s * (now_s - self.as_of_s)
        return max(0.0, self.spec.work_samples - done)


@frozen
class ClusterView:
    """State of cluster and jobs from which a decision is made; immutable and persistent.

    ``jobs`` holds every job that has arrived and not ended. It is a persistent map: an old view
    stays valid at little cost, and a decision need only look at ``news``.
    """

    time_s: float
    cluster: Cluster
    jobs: Mapping[str, JobView]
    news: Sequence[Event]
    """Events since the last decision, in order."""
    down_slots: frozenset[int] = frozenset()
    num_granted: int = 0
    """Slots promised by present grants, reached or not."""
    in_flight: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Jobs with a change in flight, and all slots that the change holds."""

    @property
    def num_usable(self) -> int:
        """Slots that are up."""
        return self.cluster.num_slots - len(self.down_slots)

    @property
    def num_free(self) -> int:
        """Slots that no grant has claimed."""
        return self.num_usable - self.num_granted


class Scheduler(Protocol):
    """Deciding rule. One object serves one run. Implementations: ``systems/schedulers/``."""

    @property
    def needs(self) -> frozenset[Knowledge]:
        """Knowledge that the scheduler needs; everything else is withheld from its views."""
        ...

    @property
    def requires(self) -> frozenset[Requirement]:
        """Abilities that the backend must have."""
        ...

    @property
    def wants_progress(self) -> bool:
        """True if the scheduler is also asked after every PROGRESS and CHANGE_DONE. That costs one
        decision per report of each job; most schedulers need only arrivals, ends and failures."""
        ...

    def decide(self, view: ClusterView) -> Decision:
        """Return the grants that should change now; equal views give equal decisions."""
        ...


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

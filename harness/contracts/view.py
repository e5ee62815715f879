"""View of cluster and jobs, which schedulers decide on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from harness.cluster import Cluster
from harness.contracts.decision import Grant
from harness.contracts.event import Event
from harness.contracts.frozen import frozen
from harness.contracts.job import JobSpec
from harness.contracts.job_state import JobState


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

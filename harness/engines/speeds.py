"""How many samples per second a simulated job makes on its slots."""

from __future__ import annotations

from collections.abc import Sequence

from harness.engines.setup import EngineSetup
from harness.engines.shared_devices import SharedDevices
from harness.engines.simulated_job import SimulatedJob
from harness.engines.variation import Variation
from harness.trace.job import JobSpec
from harness.virtual_workers import capability, spread, step_s


class Speeds:
    """Speeds by the profile, on slots of one or several device types.

    With a plan of virtual workers, a step lasts as long as the slot with the most to do for its
    speed (``harness/virtual_workers.py``); with ``follow_curve``, and where the profile's curves
    were measured under the very backend that is simulated, the plan that spreads them best makes
    T(w), whose communication that model leaves out, and any other plan is slower in proportion.
    Without a plan, every slot
    has the same share of the batch, so the slowest device type sets the pace: the least T(w) of
    those the job holds, of slots on one host or on several.

    Where jobs share devices (``Cluster.shared_speed``), a job goes at the pace of its worker that
    is slowed most; with a plan, each slot runs its virtual workers so much slower.

    With a ``variation``, every job has a drawn speed of its own on each number of slots.
    """

    def __init__(
        self,
        setup: EngineSetup,
        *,
        follow_curve: bool = False,
        variation: Variation | None = None,
    ) -> None:
        self._profile, cluster = setup.profile, setup.cluster
        self._variation = variation
        self._host_of = cluster.host_of
        self._type_of = tuple(slot.device_type for slot in cluster.slots)
        self._types_matter = bool(self._profile.device_types)
        measured_under = self._profile.provenance.get("speeds_under")
        self._knows_plans = follow_curve or measured_under == setup.backend.name
        self.shared = SharedDevices(cluster) if cluster.shared_speed else None
        """Who trains beside whom, as the engine notes it; None: nobody shares a device."""

    def samples_per_s(self, progress: SimulatedJob) -> float:
        """The rate of a job that trains; 0 without slots."""
        if not progress.slots:
            return 0.0
        rate = self._by_profile(progress)
        if self._variation is None:
            return rate
        return rate * self._variation.of_speed(progress.job, progress.batch, len(progress.slots))

    def _by_profile(self, progress: SimulatedJob) -> float:
        """The rate as the profile has it."""
        job, slots, batch = progress.job, progress.slots, progress.batch
        factors = None if self.shared is None else self.shared.factors(job.job_id, slots)
        if progress.virtual_workers is not None:
            return self._planned(job, batch, slots, progress.virtual_workers, factors)
        rate = self._on_types(job, batch, slots)
        return rate if factors is None else rate * min(factors)

    def spread(self, job: JobSpec, batch: int, slots: tuple[int, ...]) -> tuple[int, ...]:
        """All of a job's virtual workers on fewer slots, as evenly as their speeds allow."""
        return spread(job.num_logical_workers, self._capabilities(job, batch, slots))

    def _capabilities(self, job: JobSpec, batch: int, slots: tuple[int, ...]) -> list[float]:
        curve = self._profile.throughput(job.workload, job.global_batch)
        return [capability(curve, job, batch, self._type_of[slot]) for slot in slots]

    def _planned(
        self,
        job: JobSpec,
        batch: int,
        slots: tuple[int, ...],
        workers: tuple[int, ...],
        factors: Sequence[float] | None,
    ) -> float:
        """The rate with these virtual workers on each slot, slowed by these factors."""
        capabilities = self._capabilities(job, batch, slots)
        slowed = capabilities
        if factors is not None:
            slowed = [speed * factor for speed, factor in zip(capabilities, factors, strict=True)]
        seconds = step_s(workers, slowed)
        if not self._knows_plans or self._types_matter:
            return batch / seconds
        best_s = step_s(spread(job.num_logical_workers, capabilities), capabilities)
        return self._even(job, batch, slots, None) * best_s / seconds

    def _on_types(self, job: JobSpec, batch: int, slots: tuple[int, ...]) -> float:
        """T(w) on the slowest of the slots' types."""
        if not self._types_matter:
            return self._even(job, batch, slots, None)
        types = {self._type_of[slot] for slot in slots}
        return min(self._even(job, batch, slots, device_type) for device_type in types)

    def _even(
        self, job: JobSpec, batch: int, slots: tuple[int, ...], device_type: str | None
    ) -> float:
        """T(w) as if all slots were of this type."""
        across = self._profile.across_hosts(job.workload, device_type)
        if across is not None and len({self._host_of[slot] for slot in slots}) > 1:
            return across.curve(batch).samples_per_s(len(slots))
        curve = self._profile.throughput(job.workload, job.global_batch)
        return curve.samples_per_s(len(slots), batch, device_type)

"""Speeds of simulated jobs on their slots, in samples per second."""

from __future__ import annotations

from collections.abc import Sequence

from harness.contracts.job import JobSpec
from harness.engines.setup import EngineSetup
from harness.engines.simulated.job import SimulatedJob
from harness.engines.simulated.shared_devices import SharedDevices
from harness.engines.simulated.variation import Variation
from harness.profiles.virtual_workers import capability, spread, step_s


class Speeds:
    """Speeds by the profile, on slots of one or several device types.

    With a plan of virtual workers, the slot with the most work for its speed sets the duration of a
    step (``profiles/virtual_workers.py``). Two cases use T(w) with plans: ``follow_curve``, and a
    profile whose curves were measured under the simulated backend. There the plan that spreads the
    virtual workers best has T(w), which includes communication, unlike that model. Any other plan
    is slower in proportion. A profile with curves of several device types always uses the model.

    Without a plan, every slot has the same share of the batch, so the slowest device type sets the
    pace. The rate is the least T(w) of the job's types, for slots on one host or on several.

    Where jobs share devices (``Cluster.shared_speed``), the worker that is slowed most sets a job's
    pace. With a plan, each slot runs its virtual workers slower by its factor.

    With a ``variation``, every job has its own drawn speed on each number of slots.
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
        """Jobs that train on each device, as the engine notes them; None: jobs share no devices."""

    def samples_per_s(self, progress: SimulatedJob) -> float:
        """Return the rate of a job that trains; 0 without slots."""
        if not progress.slots:
            return 0.0
        rate = self._by_profile(progress)
        if self._variation is None:
            return rate
        return rate * self._variation.of_speed(progress.job, progress.batch, len(progress.slots))

    def _by_profile(self, progress: SimulatedJob) -> float:
        """Return the rate by the profile, without variation."""
        job, slots, batch = progress.job, progress.slots, progress.batch
        factors = None if self.shared is None else self.shared.factors(job.job_id, slots)
        if progress.virtual_workers is not None:
            return self._planned(job, batch, slots, progress.virtual_workers, factors)
        rate = self._on_types(job, batch, slots)
        return rate if factors is None else rate * min(factors)

    def spread(self, job: JobSpec, batch: int, slots: tuple[int, ...]) -> tuple[int, ...]:
        """Return all of a job's virtual workers on fewer slots, as evenly as their speeds allow."""
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
        """Return the rate with these virtual workers on each slot, slowed by these factors."""
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
        """Return T(w) on the slowest of the slots' types."""
        if not self._types_matter:
            return self._even(job, batch, slots, None)
        types = {self._type_of[slot] for slot in slots}
        return min(self._even(job, batch, slots, device_type) for device_type in types)

    def _even(
        self, job: JobSpec, batch: int, slots: tuple[int, ...], device_type: str | None
    ) -> float:
        """Return T(w) as if all slots were of this type."""
        across = self._profile.across_hosts(job.workload, device_type)
        if across is not None and len({self._host_of[slot] for slot in slots}) > 1:
            return across.curve(batch).samples_per_s(len(slots))
        curve = self._profile.throughput(job.workload, job.global_batch)
        return curve.samples_per_s(len(slots), batch, device_type)

"""How many samples per second a simulated job makes on its slots."""

from __future__ import annotations

from harness.engines.setup import EngineSetup
from harness.engines.simulated_job import SimulatedJob
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
    """

    def __init__(self, setup: EngineSetup, *, follow_curve: bool = False) -> None:
        self._profile, cluster = setup.profile, setup.cluster
        self._host_of = cluster.host_of
        self._type_of = tuple(slot.device_type for slot in cluster.slots)
        self._types_matter = bool(self._profile.device_types)
        measured_under = self._profile.provenance.get("speeds_under")
        self._knows_plans = follow_curve or measured_under == setup.backend.name

    def samples_per_s(self, progress: SimulatedJob) -> float:
        """The rate of a job that trains; 0 without slots."""
        job, slots, batch = progress.job, progress.slots, progress.batch
        if not slots:
            return 0.0
        if progress.virtual_workers is not None:
            return self._planned(job, batch, slots, progress.virtual_workers)
        if not self._types_matter:
            return self._even(job, batch, slots, None)
        types = {self._type_of[slot] for slot in slots}
        return min(self._even(job, batch, slots, device_type) for device_type in types)

    def spread(self, job: JobSpec, batch: int, slots: tuple[int, ...]) -> tuple[int, ...]:
        """All of a job's virtual workers on fewer slots, as evenly as their speeds allow."""
        return spread(job.num_logical_workers, self._capabilities(job, batch, slots))

    def _capabilities(self, job: JobSpec, batch: int, slots: tuple[int, ...]) -> list[float]:
        curve = self._profile.throughput(job.workload, job.global_batch)
        return [capability(curve, job, batch, self._type_of[slot]) for slot in slots]

    def _planned(
        self, job: JobSpec, batch: int, slots: tuple[int, ...], workers: tuple[int, ...]
    ) -> float:
        """The rate with these virtual workers on each slot."""
        capabilities = self._capabilities(job, batch, slots)
        seconds = step_s(workers, capabilities)
        if not self._knows_plans or self._types_matter:
            return batch / seconds
        best_s = step_s(spread(job.num_logical_workers, capabilities), capabilities)
        return self._even(job, batch, slots, None) * best_s / seconds

    def _even(
        self, job: JobSpec, batch: int, slots: tuple[int, ...], device_type: str | None
    ) -> float:
        """T(w) as if all slots were of this type."""
        across = self._profile.across_hosts(job.workload, device_type)
        if across is not None and len({self._host_of[slot] for slot in slots}) > 1:
            return across.curve(batch).samples_per_s(len(slots))
        curve = self._profile.throughput(job.workload, job.global_batch)
        return curve.samples_per_s(len(slots), batch, device_type)

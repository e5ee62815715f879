"""Books of the replay: one mutable entry per live job, and the records of all jobs."""

from __future__ import annotations

from harness.cluster import Cluster
from harness.contracts.change import Change, ChangeKind
from harness.contracts.decision import Grant
from harness.contracts.event import Event
from harness.contracts.job import DeadlineKind, JobSpec
from harness.contracts.job_state import TRANSITIONS, JobState
from harness.contracts.scheduler import Knowledge
from harness.contracts.view import JobView, Throughput
from harness.profiles import Profile, ProfileError
from harness.results.records import ChangeRecord, GrantRecord, JobRecord, OutageRecord, RunRecords


class ReplayJob:
    """State of one live job in the replay."""

    __slots__ = (
        "as_of_s",
        "attained_slot_s",
        "change",
        "change_requested_s",
        "executed_s",
        "first_start_s",
        "has_run",
        "held_since_s",
        "held_since_samples",
        "is_off_curve",
        "noise_scale",
        "num_preemptions",
        "num_rescales",
        "rate",
        "reached",
        "samples_done",
        "shown_spec",
        "slots",
        "spec",
        "state",
        "target",
        "throughput",
        "waiting_since_s",
    )

    def __init__(
        self,
        spec: JobSpec,
        shown_spec: JobSpec,
        throughput: Throughput | None,
        noise_scale: float | None,
        now_s: float,
    ) -> None:
        self.spec = spec
        self.shown_spec = shown_spec
        self.throughput = throughput
        self.noise_scale = noise_scale
        self.state = JobState.PENDING
        self.target: Grant | None = None
        self.reached: Grant | None = None
        self.slots: tuple[int, ...] = ()
        self.change: Change | None = None
        self.change_requested_s = 0.0
        self.as_of_s = now_s
        self.attained_slot_s = 0.0
        self.executed_s = 0.0
        self.samples_done = 0.0
        self.rate = 0.0
        self.waiting_since_s = now_s
        self.held_since_s = now_s
        self.held_since_samples = 0.0
        self.is_off_curve = False
        """True if the job has trained in a way that its throughput curve does not describe."""
        self.first_start_s: float | None = None
        self.has_run = False
        self.num_rescales = 0
        self.num_preemptions = 0

    def view(self) -> JobView:
        """Return the frozen view of this job for schedulers."""
        return JobView(
            self.shown_spec,
            self.state,
            self.target,
            self.slots,
            self.as_of_s,
            self.attained_slot_s,
            self.executed_s,
            self.samples_done,
            self.rate,
            self.waiting_since_s,
            self.throughput,
            self.noise_scale,
        )


class JobBook:
    """Entries of all live jobs, and the records of every job's history."""

    def __init__(
        self, cluster: Cluster, profile: Profile, shown: Profile, needs: frozenset[Knowledge]
    ) -> None:
        self.live: dict[str, ReplayJob] = {}
        self.records = RunRecords()
        self.num_ended = 0
        self._num_slots = len(cluster.devices)
        self._profile = profile
        self._shown = shown
        """Profile of the speeds that schedulers see; records use ``profile``."""
        self._needs = needs
        self._fastest: dict[tuple[str, int, int, int], float | None] = {}
        self._thriftiest: dict[tuple[str, int, int], float | None] = {}
        self._has_own_curves = not set(profile.device_types) & set(cluster.device_types)
        """True if the profile's curves are those of the cluster's devices."""
        self._down_since_s: dict[int, float] = {}

    def arrive(self, spec: JobSpec, now_s: float) -> ReplayJob:
        """Enter a job that arrives now, and return its entry."""
        throughput = None
        if Knowledge.THROUGHPUT in self._needs:
            throughput = self._shown.throughput(spec.workload, spec.global_batch)
        noise_scale = None
        if Knowledge.GRADIENT_NOISE in self._needs:
            noise_scale = self._profile.noise_scale.get(spec.workload)
        job = ReplayJob(spec, _shown(spec, self._needs), throughput, noise_scale, now_s)
        self.live[spec.job_id] = job
        return job

    def settle(self, job: ReplayJob, now_s: float) -> None:
        """Bring the counters of a job up to ``now_s``."""
        passed_s = now_s - job.as_of_s
        if passed_s > 0.0:
            if job.slots:
                job.attained_slot_s += len(job.slots) * passed_s
                job.executed_s += passed_s
                job.samples_done += job.rate * passed_s
            job.as_of_s = now_s

    def move(self, job: ReplayJob, state: JobState) -> None:
        """Change a job's state along the table of legal transitions."""
        if state not in TRANSITIONS[job.state]:
            raise AssertionError(f"job {job.spec.job_id}: {job.state} cannot become {state}")
        job.state = state

    def hold(self, job: ReplayJob, slots: tuple[int, ...], now_s: float) -> None:
        """Set the slots that a job holds from now on, and close the grant record that ends."""
        # Before the slots change: both count the time up to now with the old slots.
        self.settle(job, now_s)
        self.cut_grant(job, now_s)
        if slots and job.first_start_s is None:
            job.first_start_s = now_s
        if not slots:
            job.waiting_since_s = now_s
        job.slots = slots

    def count_interruption(self) -> None:
        """Count a job that lost its grant with all its workers."""
        facts = self.records.facts
        facts["interruptions"] = facts.get("interruptions", 0.0) + 1.0

    def count_loss(self, num_workers: int, num_stragglers: int) -> None:
        """Count workers that are gone while their job goes on: they died, or were removed as
        stragglers."""
        facts = self.records.facts
        found = {"workers_lost": num_workers - num_stragglers, "stragglers_removed": num_stragglers}
        for name, count in found.items():
            if count:
                facts[name] = facts.get(name, 0.0) + count

    def slot_down(self, slot: int, now_s: float) -> None:
        """Note that a slot is out of service from now on."""
        self._down_since_s.setdefault(slot, now_s)

    def slot_up(self, slot: int, now_s: float) -> None:
        """Note that a slot is in service again, and close the record of its outage."""
        start_s = self._down_since_s.pop(slot, None)
        if start_s is not None:
            self.records.outages.append(OutageRecord(slot, start_s, now_s))

    def close(self, now_s: float) -> None:
        """End the books with the run: a slot that is still down gets an outage up to now."""
        for slot in list(self._down_since_s):
            self.slot_up(slot, now_s)

    def open_change(self, job: ReplayJob, change: Change, now_s: float) -> None:
        """Note a change that is handed to the engine."""
        job.change = change
        job.change_requested_s = now_s

    def close_change(self, job: ReplayJob, event: Event, outcome: str) -> None:
        """Record the outcome of a job's change, which has ended."""
        change = job.change
        assert change is not None
        job.change = None
        if outcome == "done" and change.kind in (ChangeKind.RESCALE, ChangeKind.MIGRATE):
            job.num_rescales += 1
        self.records.changes.append(
            ChangeRecord(
                change.change_id,
                change.job.job_id,
                change.kind.value,
                job.change_requested_s,
                event.time_s,
                outcome,
                change.previous_slots,
                change.slots,
                event.stopping_time_s,
                event.samples_lost,
                event.phases_s,
            )
        )

    def end(self, job: ReplayJob, state: JobState, now_s: float, reason: str) -> None:
        """Remove a job that has ended, and record it."""
        self.move(job, state)
        spec = job.spec
        del self.live[spec.job_id]
        self.num_ended += 1
        self.records.jobs.append(
            JobRecord(
                job_id=spec.job_id,
                workload=spec.workload,
                owner=spec.owner,
                arrival_s=spec.arrival_s,
                requested_slots=spec.requested_slots,
                global_batch=spec.global_batch,
                work_samples=spec.work_samples,
                deadline_s=spec.deadline_s,
                deadline_kind=spec.deadline_kind.value,
                state=state.value,
                first_start_s=job.first_start_s,
                finish_s=now_s,
                samples_done=job.samples_done,
                attained_slot_s=job.attained_slot_s,
                executed_s=job.executed_s,
                num_rescales=job.num_rescales,
                num_preemptions=job.num_preemptions,
                alone_s=self._alone_s(spec, spec.requested_slots, spec.requested_slots),
                fastest_alone_s=self._alone_s(spec, *self._slot_bounds(spec)),
                single_slot_s=self._alone_s(spec, 1, 1),
                least_slot_s=None if job.is_off_curve else self._least_slot_s(spec),
                reason=reason,
            )
        )

    def _slot_bounds(self, spec: JobSpec) -> tuple[int, int]:
        if not spec.elastic:
            return spec.requested_slots, spec.requested_slots
        most = self._num_slots if spec.max_slots is None else spec.max_slots
        return spec.min_slots, min(most, self._num_slots)

    def _alone_s(self, spec: JobSpec, low: int, high: int) -> float | None:
        """Return the least run time alone on ``low`` to ``high`` slots by the profile."""
        key = (spec.workload, spec.global_batch, low, high)
        if key not in self._fastest:
            try:
                curve = self._profile.throughput(spec.workload, spec.global_batch)
            except ProfileError:
                self._fastest[key] = None
            else:
                rates = [curve.samples_per_s(count) for count in range(low, high + 1)]
                self._fastest[key] = max(rates, default=0.0) or None
        rate = self._fastest[key]
        return None if rate is None else spec.work_samples / rate

    def _least_slot_s(self, spec: JobSpec) -> float | None:
        """Return the least slot time for the job's work, on 1 to its most slots, by the profile."""
        if not self._has_own_curves:
            return None
        high = self._slot_bounds(spec)[1]
        key = (spec.workload, spec.global_batch, high)
        if key not in self._thriftiest:
            try:
                curve = self._profile.throughput(spec.workload, spec.global_batch)
            except ProfileError:
                self._thriftiest[key] = None
            else:
                rates = (curve.samples_per_s(count) / count for count in range(1, high + 1))
                self._thriftiest[key] = max(rates, default=0.0) or None
        rate = self._thriftiest[key]
        return None if rate is None else spec.work_samples / rate

    def cut_grant(self, job: ReplayJob, now_s: float) -> None:
        """End the present period of a job's grant, and record it if the job had slots and time
        passed."""
        period_s = now_s - job.held_since_s
        if job.slots and period_s > 0.0:
            batch = job.spec.global_batch
            if job.reached is not None:
                batch = job.reached.global_batch or batch
                job.is_off_curve = (
                    job.is_off_curve
                    or batch != job.spec.global_batch
                    or job.reached.virtual_workers is not None
                    or len(job.slots) < job.spec.min_slots
                )
            one_slot_s = self._alone_s(job.spec, 1, 1)
            speedup = None
            if one_slot_s is not None:
                samples = job.samples_done - job.held_since_samples
                speedup = samples / period_s * (one_slot_s / job.spec.work_samples)
            self.records.grants.append(
                GrantRecord(job.spec.job_id, job.held_since_s, now_s, job.slots, batch, speedup)
            )
        job.held_since_s = now_s
        job.held_since_samples = job.samples_done


def _shown(spec: JobSpec, needs: frozenset[Knowledge]) -> JobSpec:
    """Return the job without undeclared knowledge, with its work as its owner states it.

    The copy is made field by field without validation. It breaks rules that a trace must keep,
    because its work is infinite.
    """
    hidden: dict[str, object] = {}
    if Knowledge.DEADLINE not in needs and spec.deadline_s is not None:
        hidden |= {"deadline_s": None, "deadline_kind": DeadlineKind.NONE}
    if Knowledge.REMAINING_WORK not in needs:
        hidden |= {"work_samples": float("inf"), "duration_s": None}
    elif spec.stated_work_ratio != 1.0:
        stated = spec.stated_work_ratio
        hidden |= {"work_samples": spec.work_samples * stated}
        if spec.duration_s is not None:
            hidden |= {"duration_s": spec.duration_s * stated}
    if spec.stated_work_ratio != 1.0:
        hidden |= {"stated_work_ratio": 1.0}
    if not hidden:
        return spec
    shown = object.__new__(JobSpec)
    for name in JobSpec.__slots__:
        object.__setattr__(shown, name, hidden[name] if name in hidden else getattr(spec, name))
    return shown

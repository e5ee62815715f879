"""One job of the live engine: steps executed, steps credited, and work left."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection
from typing import Protocol

from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.evidence import Evidence
from harness.contracts.job import JobSpec
from harness.contracts.training_order import AdaptiveBatch, TrainingOrder
from harness.engines.setup import EngineSetup
from harness.files.safe_names import file_name


class LiveJob:
    """Progress of one job, as its backend reports it."""

    def __init__(self, spec: JobSpec, global_batch: int, checkpoint_every: int = 0) -> None:
        """Create the job before its first change; ``checkpoint_every`` is as in ``Backend``."""
        self.spec = spec
        self.global_batch = global_batch
        """Global batch of the steps executed now; a change brings its own batch once it is done."""
        self.change: Change | None = None
        self.num_workers = 0
        """Workers that train now; 0 until the first change is done, and while suspended."""
        self.steps_executed = 0
        self.samples_executed = 0
        self.samples_credited = 0.0
        self.steps_credited = 0
        self._checkpoint_every = checkpoint_every
        self._credits: list[tuple[int, int, int]] = []
        """For each time that steps were credited: the last step executed before, steps, samples."""
        self.step_s = 0.0
        self.step_samples = float(global_batch)
        """Mean samples of the steps between the last two reports."""
        self.steps_at_change = 0
        self.num_losses = 0
        """Number of times in a row that the job lost its workers before a change was done. Losses
        by slots that went down, or by failures of the machine, are left out, because they say
        nothing about the job."""
        self.is_ending = False
        self.slots: tuple[int, ...] = ()
        """Slots of its workers, as far as is known."""
        self.heard_at = 0.0
        self.requested_at: dict[int, float] = {}
        """Wall-clock time (monotonic) at which each change was requested, by change id."""
        self.results: dict[str, float | str] = {}

    @property
    def in_flight(self) -> bool:
        """True if a change is under way."""
        return self.change is not None

    @property
    def is_alive(self) -> bool:
        """True if the job has workers to fall back on when a change fails."""
        return self.num_workers > 0

    @property
    def samples_done(self) -> float:
        """Executed and credited samples, at most the job's work."""
        return min(self.spec.work_samples, self.samples_executed + self.samples_credited)

    @property
    def samples_left(self) -> float:
        """Samples of the job's work that are neither executed nor credited."""
        return max(0.0, self.spec.work_samples - self.samples_executed - self.samples_credited)

    @property
    def target_step(self) -> int:
        """Number of executed steps at which the work is done.

        While a change is under way, the step from which the new batch holds is unknown. The smaller
        batch then counts, because the job must not end before its work is done.
        """
        batch = self.global_batch
        if self.change is not None and self.change.kind is not ChangeKind.SUSPEND:
            batch = min(batch, self.change.global_batch)
        return self.steps_executed + math.ceil(self.samples_left / batch)

    @property
    def steady_steps(self) -> int:
        """Steps executed since the last change."""
        return self.steps_executed - self.steps_at_change

    def may_run_on(self, slots: Collection[int]) -> bool:
        """Return whether a worker of the job is on one of these slots, or on its way there."""
        coming = self.change.slots if self.change is not None else ()
        return any(slot in slots for slot in (*self.slots, *coming))

    def begin(self, change: Change, at: float) -> None:
        """Note a change that is handed to the backend."""
        self.change = change
        self.requested_at[change.change_id] = at
        self.heard_at = at
        if change.kind in (ChangeKind.START, ChangeKind.RESUME):
            self.global_batch = change.global_batch

    def credit(self, samples: float) -> None:
        """Count whole steps as done without executing them."""
        steps = int(min(samples, self.samples_left) // self.global_batch)
        self.steps_credited += steps
        self.samples_credited += steps * self.global_batch
        self._credits.append((self.steps_executed, steps, steps * self.global_batch))

    def _lose_credits(self, step: int) -> None:
        """Remove the credits after ``step``, the checkpoint from which the job goes on."""
        while self._credits and self._credits[-1][0] > step:
            _, steps, samples = self._credits.pop()
            self.steps_credited -= steps
            self.samples_credited -= samples

    def note(self, report: Report, is_outage: bool = False) -> None:
        """Update the counters from a report. ``is_outage``: a loss is not counted against the job,
        because one of its slots is down or the trace broke its program."""
        self.heard_at = report.at_s
        if report.kind not in (ReportKind.ACCEPTED, ReportKind.RETRY):
            if report.step > self.steps_executed:
                steps = report.step - self.steps_executed
                self.step_samples = (report.samples - self.samples_executed) / steps
            # The number may fall: after a loss the job goes on from its last checkpoint.
            self.steps_executed = report.step
            self.samples_executed = report.samples
        if report.step_s > 0:
            self.step_s = report.step_s
        change = self.change
        if report.kind is ReportKind.DONE and change is not None:
            self.slots = change.slots
            self.num_workers = len(change.slots)
            if change.slots:
                self.global_batch = change.global_batch
            self.steps_at_change = report.step
            self.change = None
            self.num_losses = 0
        elif report.kind in (ReportKind.FAILED, ReportKind.RETRY):
            self.change = None
        elif report.kind is ReportKind.LOST:
            self.change = None
            self.slots = ()
            self.num_workers = 0
            if not (is_outage or report.of_machine):
                self.num_losses += 1
            # A backend with periodic checkpoints would have saved the credited steps meanwhile.
            if not self._checkpoint_every:
                self._lose_credits(report.step)
        elif report.kind is ReportKind.SHRUNK:
            self.slots = report.slots
            self.num_workers = len(report.slots)
            self.steps_at_change = report.step
        elif report.kind is ReportKind.FINISHED:
            self.num_workers = 0
            self.results = dict(report.results)
        self.is_ending = self.samples_left <= 0


class Recorded(Protocol):
    """Options of the live engine that say what a job's training records."""

    @property
    def digest_every(self) -> int:
        """Steps from one digest to the next."""
        ...

    @property
    def evidence_order(self) -> Evidence:
        """Steps for which evidence is kept."""
        ...

    @property
    def evaluate_epochs(self) -> float:
        """Epochs from one evaluation to the next."""
        ...

    def adaptive_order(self, spec: JobSpec) -> AdaptiveBatch:
        """Return the parameters by which a job adapts its batch, for runs that adapt batches."""
        ...


def training_order(
    job: LiveJob, setup: EngineSetup, floors: dict[int, float], options: Recorded
) -> TrainingOrder:
    """Return what the backend needs to train this job."""
    job_id = job.spec.job_id
    return TrainingOrder(
        job_id=job_id,
        workload=setup.workloads[job.spec.workload],
        seed=job_seed(setup.seed, job_id),
        target_step=job.target_step,
        job_dir=setup.run_dir / "jobs" / file_name(job_id),
        step_floor_s=floors,
        digest_every=options.digest_every,
        evidence=options.evidence_order,
        evaluate_epochs=options.evaluate_epochs,
        adaptive=options.adaptive_order(job.spec) if setup.scaling == "adaptive" else None,
    )


def job_seed(seed: int, job_id: str) -> int:
    """Return the seed of a job's training, its own stream of the run's ``seed``."""
    # docs/reference/bits.md specifies this hash: another one would change the bits of every job.
    return zlib.crc32(f"{seed}/job/{job_id}".encode())


def samples_per_s(job: LiveJob, setup: EngineSetup, *, is_paced: bool) -> float:
    """Return a job's speed on the engine's clock, samples per second: the profile's if paced, else
    the measured speed."""
    if not job.num_workers:
        return 0.0
    if is_paced:
        curve = setup.profile.throughput(job.spec.workload, job.spec.global_batch)
        return curve.samples_per_s(job.num_workers, job.global_batch)
    is_adaptive = setup.scaling == "adaptive"
    batch = job.step_samples if is_adaptive else float(job.global_batch)
    return batch / job.step_s if job.step_s > 0 else 0.0


def step_floors(spec: JobSpec, setup: EngineSetup, dilation: float) -> dict[int, float]:
    """Return the least wall-clock seconds of a step by number of slots, by the profile."""
    curve = setup.profile.throughput(spec.workload, spec.global_batch)
    per_slot = max(1, round(spec.global_batch / spec.requested_slots))
    floors = {}
    for count in range(1, setup.cluster.num_slots + 1):
        batch = per_slot * count if setup.scaling == "weak" else spec.global_batch
        floors[count] = dilation * batch / curve.samples_per_s(count, batch)
    return floors

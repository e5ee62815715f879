"""What happened: frozen types. Facts only; ``metrics.py`` derives every number.

Written by the replay, read by metrics, reports and tracking. Times are seconds on the
engine's clock unless the name says otherwise; slots are in rank order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.frozen import frozen

SCHEMA_VERSION = 1


@frozen
class JobRecord:
    """One job, from submission to its end."""

    job_id: str
    workload: str
    owner: str
    arrival_s: float
    requested_slots: int
    global_batch: int
    work_samples: float
    deadline_s: float | None
    deadline_kind: str
    state: str
    """Last state (a ``JobState``): finished, failed, refused, or where the run ended."""
    first_start_s: float | None
    """First time it held slots."""
    finish_s: float | None
    """When it ended, however it ended."""
    samples_done: float
    attained_slot_s: float
    executed_s: float
    """Seconds with slots."""
    num_rescales: int
    num_preemptions: int
    """Suspensions that the scheduler decided."""
    alone_s: float | None
    """Run time alone at the requested slots, by the profile."""
    fastest_alone_s: float | None
    """Least run time any allocation on this cluster could give it alone, by the profile."""
    reason: str = ""
    single_slot_s: float | None = None
    """Run time alone on one slot, by the profile (the L of Saxena's SJS efficiency)."""
    least_slot_s: float | None = None
    """Least slot time that any number of slots could do its work in, slot-seconds, by the profile;
    None where its speeds were not those of its curve: another batch, virtual workers, fewer slots
    than its least, a device type with curves of its own."""


@frozen
class GrantRecord:
    """A period in which a job held the same slots; a change of the job begins a new one."""

    job_id: str
    start_s: float
    end_s: float
    slots: tuple[int, ...]
    global_batch: int
    speedup: float | None
    """Samples per second over the period, over T(1) by the profile; None where T(1) is not
    known. 0 while the job only started or was stopped."""


@frozen
class ChangeRecord:
    """One change an engine was asked for, and what became of it."""

    change_id: int
    job_id: str
    kind: str
    requested_s: float
    ended_s: float | None
    outcome: str
    """done, failed, retry, or open where the run ended first."""
    from_slots: tuple[int, ...]
    to_slots: tuple[int, ...]
    stopping_time_s: float | None
    """Wall-clock seconds in live runs, simulated seconds in simulated ones."""
    samples_lost: float | None
    phases_s: Mapping[str, float] = field(default_factory=dict)


@frozen
class DecisionRecord:
    """One call of the scheduler that changed something."""

    time_s: float
    num_news: int
    num_changes: int


@frozen
class OutageRecord:
    """A period in which a slot was down, as the replay was told: from the instant in which no job
    held it any more."""

    slot: int
    start_s: float
    end_s: float
    """When it was up again; the end of the run for one that never was."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One really executed step of a live job, as its first worker saw it."""

    job_id: str
    step: int
    num_workers: int
    global_batch: int
    started_s: float
    """Seconds since the start of the run, wall clock."""
    duration_s: float
    """Wall clock."""
    loss_hex: str
    """Global-batch loss as exact float bits (``float.hex``)."""


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """A result of a live job: an evaluation metric, or a digest of its state."""

    job_id: str
    step: int
    name: str
    """Metric name, or digest_parameters, digest_buffers, digest_optimizer."""
    value: str
    """Number as text, or hexadecimal digest."""


@dataclass(frozen=True, slots=True)
class SystemRecord:
    """The machine during a live run."""

    at_s: float
    """Seconds since the start of the run, wall clock."""
    cpu_percent: float
    memory_bytes: int
    num_processes: int


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One worker that was struck on purpose."""

    at_s: float
    """Seconds since the start of the run, wall clock."""
    signal: str
    """SIGKILL or SIGSTOP."""
    worker: str
    """Name of its process."""
    phase: str
    """``steady``: no change was in flight; ``change``: an old worker was struck during one;
    ``joiner``: a worker that was to join."""
    change_id: int
    """The change in flight; -1 if there was none."""
    num_workers: int
    """Living worker processes just before, those that join or leave among them."""
    aimed_at: str = "any"
    """The phase in which it was to be struck; ``any``: at a random moment."""
    struck_in: str = "start"
    """What it did when it died (or was stopped), by its mark: a ``contracts.marks.Doing`` in
    lower case; ``start`` also where a backend keeps no marks."""
    led: int = 0
    """1 if it led the job then, 0 if not."""
    was_first: int = 0
    """1 if it was the job's first worker (rank 0) then, 0 if not."""


@dataclass(frozen=True, slots=True)
class SlowingRecord:
    """One worker that was made slow on purpose, or was taken for slow without that."""

    at_s: float
    """Seconds since the start of the run, wall clock: when it became slow, or was named."""
    until_s: float
    """When it ran as before again, or was gone."""
    worker: str
    """Name of its process."""
    speed: float
    """Share of the time that it was to run; 1: nobody slowed it, its removal was a mistake."""
    stopped_share: float
    """Share of the time in which it was stopped, as measured by the signals."""
    num_workers: int
    """Living worker processes at the beginning."""
    detected_s: float | None
    """From the beginning until the backend had found the straggler; None: it never did."""
    switched_s: float | None
    """From the beginning to the start of the first step without it."""


@dataclass(frozen=True, slots=True)
class AccusationRecord:
    """One worker that its backend killed since it had been silent for too long."""

    job_id: str
    at_s: float
    """When it was killed: seconds since the start of the run, wall clock."""
    worker: str
    """Name of its process, as in ``FaultRecord``."""
    accuser: str
    """Name of the process that had heard nothing of it."""
    silent_s: float
    """For how long, on the accuser's clock."""


@dataclass(frozen=True, slots=True)
class FixedSizeRecord:
    """One finished job that was held, bit by bit, to training on a fixed number of workers."""

    job_id: str
    num_workers: int
    """The fixed workers: the job's logical ones or, without such, those it was started on."""
    num_steps: int
    """Steps that the job executed, and its reference too."""
    different: str
    """Names of the digests that differ at the end, separated by spaces; empty: all are equal."""
    equal_steps: int
    """Steps from the first on whose losses are equal, of every worker where the job's log has
    them; ``num_steps``: all."""
    reference: str
    """Name of the reference in ``results/fixed_size/``, without its ending."""

    @property
    def is_equal(self) -> bool:
        """Whether the digests at the end and the losses of all steps are equal."""
        return not self.different and self.equal_steps == self.num_steps


@dataclass(frozen=True, slots=True)
class FixedLossRecord:
    """The loss of a job's last logical worker in one step, and of the same one of fixed workers
    (the curves of EasyScale's figure 10)."""

    job_id: str
    step: int
    num_slots: int
    """On which the job made it."""
    loss_hex: str
    """Exact float bits (``float.hex``), like the next."""
    fixed_hex: str


@dataclass
class RunRecords:
    """All records of one run. Lists are in time order, ties by arrival and job id."""

    jobs: list[JobRecord] = field(default_factory=list)
    grants: list[GrantRecord] = field(default_factory=list)
    changes: list[ChangeRecord] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    outages: list[OutageRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    evaluations: list[EvaluationRecord] = field(default_factory=list)
    system: list[SystemRecord] = field(default_factory=list)
    faults: list[FaultRecord] = field(default_factory=list)
    slowings: list[SlowingRecord] = field(default_factory=list)
    accusations: list[AccusationRecord] = field(default_factory=list)
    fixed_size: list[FixedSizeRecord] = field(default_factory=list)
    fixed_losses: list[FixedLossRecord] = field(default_factory=list)
    latencies_us: list[int] = field(default_factory=list)
    """Wall-clock duration of every scheduler call; kept apart since it never repeats."""
    facts: dict[str, float] = field(default_factory=dict)
    """Single numbers that only the run itself knows: replay_wall_s, num_events,
    num_slots, steps_executed, steps_credited, steps_repeated (that were made again from a
    checkpoint, not counted as executed), steps_executed_<workload>, rescales_<workload>,
    interruptions (times that a job lost its grant with all its workers),
    pace_overrun_share (steps that took longer than their pace), speed_over_profile (time that the
    profile gives the steps of jobs that were not paced, over theirs), resimulated_* (metrics of a
    simulation with their speeds, see ``harness.resimulation``), workers_lost (that died while
    their job went on), of faults on purpose: faults, faults_missed (their phase did not come),
    workers_crashed (that ended with an error and had not been struck), jobs_lost (times that no
    worker could go on), machine_failures (times that the machine ended a job's workers, which then
    went on), stragglers_removed, spares_used and spares_missed (starts that were given
    a spare, and those that had to do with a fork), reference_wall_s (what training the references
    of finished jobs took), peak_memory_bytes, what workers noted of their coordination (see
    ``engines.coordination``), and the similarity numbers (similarity_*)."""

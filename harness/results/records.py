"""Records of a run: frozen types with facts only; ``metrics.py`` derives every number.

The replay writes them; metrics, reports and tracking read them. Times are seconds on the engine's
clock unless the name says otherwise; slots are in rank order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.contracts.frozen import frozen

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
    """Last state (a ``JobState``): finished, failed, refused, or the state when the run ended."""
    first_start_s: float | None
    """First time at which it held slots."""
    finish_s: float | None
    """Time at which it ended, in whatever way."""
    samples_done: float
    attained_slot_s: float
    executed_s: float
    """Seconds during which the job held slots."""
    num_rescales: int
    num_preemptions: int
    """Suspensions that the scheduler decided."""
    alone_s: float | None
    """Run time alone at the requested slots, by the profile."""
    fastest_alone_s: float | None
    """Least run time alone of any allocation on this cluster, by the profile."""
    reason: str = ""
    single_slot_s: float | None = None
    """Run time alone on one slot, by the profile (the L of Saxena's SJS efficiency)."""
    least_slot_s: float | None = None
    """Least slot time for its work on any number of slots, in slot-seconds, by the profile. None if
    the curve does not describe its training: another batch, virtual workers, fewer slots than its
    minimum, a device type with its own curves."""


@frozen
class GrantRecord:
    """Period in which a job held the same slots; a change of the job begins a new period."""

    job_id: str
    start_s: float
    end_s: float
    slots: tuple[int, ...]
    global_batch: int
    speedup: float | None
    """Samples per second over the period, over T(1) by the profile; None if T(1) is unknown. 0
    while the job only started or was stopped."""


@frozen
class ChangeRecord:
    """One change that was requested from an engine, and its outcome."""

    change_id: int
    job_id: str
    kind: str
    requested_s: float
    ended_s: float | None
    outcome: str
    """One of done, failed, retry, or open (the run ended first)."""
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
    """Period in which a slot was down for the replay: it begins when no job holds the slot any
    more."""

    slot: int
    start_s: float
    end_s: float
    """Time at which it was up again; the end of the run if it never was."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a live job that was really executed, as the job's first worker saw it."""

    job_id: str
    step: int
    num_workers: int
    global_batch: int
    started_s: float
    """Seconds since the start of the run, wall clock."""
    duration_s: float
    """Duration in wall-clock seconds."""
    loss_hex: str
    """Global-batch loss as exact float bits (``float.hex``)."""


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """Result of a live job: an evaluation metric, or a digest of its state."""

    job_id: str
    step: int
    name: str
    """Metric name, or digest_parameters, digest_buffers, digest_optimizer."""
    value: str
    """Number as text, or hexadecimal digest."""


@dataclass(frozen=True, slots=True)
class SystemRecord:
    """Sample of the machine during a live run."""

    at_s: float
    """Seconds since the start of the run, wall clock."""
    cpu_percent: float
    memory_bytes: int
    num_processes: int


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One worker that was killed or stopped on purpose."""

    at_s: float
    """Seconds since the start of the run, wall clock."""
    signal: str
    """SIGKILL or SIGSTOP."""
    worker: str
    """Name of its process."""
    phase: str
    """Situation of the victim. ``steady``: no change was in flight; ``change``: an old worker
    during a change; ``joiner``: a worker that was to join."""
    change_id: int
    """Change in flight; -1 if there was none."""
    num_workers: int
    """Living worker processes just before, including those that join or leave."""
    aimed_at: str = "any"
    """Phase in which the worker was to be struck; ``any``: at a random moment."""
    struck_in: str = "start"
    """Activity of the worker when it died (or was stopped), by its phase marker: a
    ``contracts.marks.WorkerPhase`` in lower case. Also ``start`` if the backend keeps no marks."""
    led: int = 0
    """1 if the worker led the job then, 0 if not."""
    was_first: int = 0
    """1 if the worker was the job's first (rank 0) then, 0 if not."""


@dataclass(frozen=True, slots=True)
class SlowingRecord:
    """One worker that was slowed on purpose, or was removed as slow by mistake."""

    at_s: float
    """Time at which it became slow, or was detected, in wall-clock seconds since the start of the
    run."""
    until_s: float
    """Time at which it ran freely again, or was gone."""
    worker: str
    """Name of its process."""
    speed: float
    """Share of the time in which the worker was allowed to run; 1: it was never slowed, so its
    removal was wrong."""
    stopped_share: float
    """Share of the time in which the worker was stopped, as measured between the signals."""
    num_workers: int
    """Living worker processes at the beginning."""
    detected_s: float | None
    """Seconds from the beginning until the backend detected the straggler; None: it never did."""
    switched_s: float | None
    """Seconds from the beginning to the first step without it, as the backend reports it."""


@dataclass(frozen=True, slots=True)
class AccusationRecord:
    """One worker that its backend killed because it had been silent for too long."""

    job_id: str
    at_s: float
    """Time at which it was killed, in wall-clock seconds since the start of the run."""
    worker: str
    """Name of its process, as in ``FaultRecord``."""
    accuser: str
    """Name of the process that had received nothing from the killed worker."""
    silent_s: float
    """Seconds of silence of the killed worker, on the clock of the process that accused it."""


@dataclass(frozen=True, slots=True)
class FixedSizeRecord:
    """One finished job, compared bit by bit with training on a fixed number of workers."""

    job_id: str
    num_workers: int
    """Number of fixed workers: the job's logical workers or, without any, the workers at its
    start."""
    num_steps: int
    """Steps that the job and its reference executed."""
    different: str
    """Names of the digests that differ at the end, separated by spaces; empty: all are equal."""
    equal_steps: int
    """Number of steps, from the first on, with equal losses (of every worker if the job's log has
    them); ``num_steps`` if all are equal."""
    reference: str
    """Name of the reference in ``results/fixed_size/``, without its suffix."""

    @property
    def is_equal(self) -> bool:
        """True if the digests at the end and the losses of all steps are equal."""
        return not self.different and self.equal_steps == self.num_steps


@dataclass(frozen=True, slots=True)
class FixedLossRecord:
    """Losses in one step of a job's last logical worker and of its counterpart among fixed workers
    (the curves of EasyScale's figure 10)."""

    job_id: str
    step: int
    num_slots: int
    """Slots on which the job executed the step."""
    loss_hex: str
    """Loss as exact float bits (``float.hex``), like ``fixed_hex``."""
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
    """Wall-clock duration of every scheduler call; kept apart because it never repeats exactly."""
    facts: dict[str, float] = field(default_factory=dict)
    """Single numbers that only the running program can measure.

    Size and speed: replay_wall_s, num_events, num_slots, peak_memory_bytes. Steps: steps_executed,
    steps_credited, steps_repeated (made again from a checkpoint, not counted as executed),
    steps_executed_<workload>, rescales_<workload>.

    Pace: pace_overrun_share (share of steps that took longer than their pace) and
    speed_over_profile (time that the profile gives the steps of unpaced jobs, over their time). The
    numbers resimulated_* are metrics of a simulation with the run's own speeds
    (``harness.run.resimulation``).

    Losses: interruptions (a job lost its grant with all its workers), workers_lost (workers died
    while their job continued), stragglers_removed, machine_failures (the machine ended a job's
    workers, and the job continued).

    Fault injection: faults, faults_missed (their phase did not come), workers_crashed (ended with
    an error without being struck), jobs_lost (no worker of a job could continue).

    Others: spares_used and spares_missed (starts that got a spare, or a fork instead),
    reference_wall_s (training the references of finished jobs). Workers' notes of their
    coordination (``engines.coordination``) and similarity numbers (similarity_*) are here too.
    """

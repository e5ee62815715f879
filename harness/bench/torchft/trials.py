"""Trials in which the same training grows and loses a worker under torchft and under ``stop_free``.

Both systems train the same class on the same cores with one batch for each worker, since torchft's
replicas have no global batch. A newcomer is a new interpreter unless an option says otherwise. All
processes have the heap settings of workers. The order of the two systems is drawn.
"""

from __future__ import annotations

import json
import random
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from harness.bench.torchft.courses import FIRST_STEPS, Course, CourseError, Step
from harness.bench.trial_loop import drawn_rounds
from harness.configuration.compose import CONFIG_DIR, quote
from harness.contracts.change import ChangeKind
from harness.contracts.job_state import JobState
from harness.contracts.workload import WorkloadSpec
from harness.engines.live.job import LiveJob, training_order
from harness.engines.live.options import Live
from harness.errors import Problem, UserError
from harness.machine import malloc as kept_heap
from harness.machine.child_process import PointProcess, stop_all
from harness.machine.network import interface_of
from harness.results.store import load_run
from harness.run.plan import Library, plan
from harness.sweep.runner import read_words

STEPS_BEFORE = FIRST_STEPS + 200
"""Steps of the only worker before more are requested."""
_SETTLE_S = 4.0
"""Seconds of training with all workers before one is killed."""
_WORK_SAMPLES = 10_000_000
"""Work of the job, more than is trained before the last fault; the rest is credited."""
_GRACE_S = 20.0
_LOG_LINES = 6
_ERROR = re.compile(r"[\w.]*Error\b")


class System(StrEnum):
    """Systems that are compared."""

    TORCHFT = "torchft"
    STOP_FREE = "stop_free"


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of the comparison, for every workload."""

    module: str
    """Module that runs torchft, for ``python -m``."""
    workloads: tuple[str, ...]
    """Workloads, each as ``POOL/NAME``."""
    workers: int
    """Number of workers after the scale-out from one."""
    batch: int
    """Samples of one worker in a step."""
    cluster: str
    start: str
    """Warmth of newcomers under the stop-free backend; torchft's are new interpreters."""
    wrapper: str
    """Way in which torchft's replicas sum gradients: ``flat`` or ``ddp``."""
    heartbeat_s: float
    """Seconds of silence after which torchft's lighthouse declares a replica dead."""
    trials: int
    seed: int
    """Seed of the order."""
    torchft: str
    """Version of torchft."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A workload in the form in which both systems train it."""

    workload: str
    spec: WorkloadSpec
    words: tuple[str, ...]
    """Overrides of the stop-free run, without the repetition."""
    cores: tuple[int, ...]
    environment: Mapping[str, str]

    @property
    def facts(self) -> dict[str, Any]:
        """Facts that determine the work of a trial."""
        own = self.spec
        return {"target": own.target, "options": dict(own.options), "cores": list(self.cores)}


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One measurement of a workload under each system."""

    cell: Cell
    number: int

    @property
    def name(self) -> str:
        """Name for users and for file names."""
        return f"{self.cell.workload.replace('/', '-')}-t{self.number}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a trial under one system."""

    course: Course | None
    """Times of the training; None: it did not complete."""
    victim: str
    """Description of the killed worker."""
    error: str = ""
    """Reason why there is no course."""


def defaults() -> dict[str, Any]:
    """Return the default settings, by the names of the command's flags."""
    text = (CONFIG_DIR / "beside_torchft.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def plan_cells(settings: Settings, folder: Path) -> list[Cell]:
    """Return every workload as a cell, checked as ordinary runs are.

    Args:
        settings: options of the comparison.
        folder: runs are written below it.

    Raises:
        UserError: all problems of all workloads, each once.
    """
    library, cells = Library(), []
    problems: dict[str, Problem | str] = {}
    for workload in settings.workloads:
        try:
            cells.append(_plan_cell(settings, workload, folder, library))
        except UserError as error:
            problems |= {str(problem): problem for problem in error.problems}
    if problems:
        raise UserError(problems.values())
    return cells


def _plan_cell(settings: Settings, workload: str, folder: Path, library: Library) -> Cell:
    pool, slash, name = workload.partition("/")
    if not (pool and slash and name):
        raise UserError([Problem("--workloads", f"{workload!r}", "write POOL/NAME: tiny/bert")])
    grow = f"{{job: 0, after_steps: {STEPS_BEFORE}, slots: {settings.workers}}}"
    words = (
        *("trace=edl_one_job", f"trace.reader.constants.workload={name}"),
        f"trace.reader.constants.batch={settings.batch}",
        f"trace.reader.constants.work={_WORK_SAMPLES}",
        *(f"workload={pool}", f"cluster={settings.cluster}", "scaling=weak", "profile=recorded"),
        *("scheduler=scripted", f"scheduler.script=[{grow}]"),
        *("backend=stop_free", f"backend.start={settings.start}"),
        *("engine=live_faults", "engine.faults.count=1", f"engine.faults.settle_s={_SETTLE_S}"),
        *("tracking=none", "progress=false", f"results_dir={quote(str(folder / 'runs'))}"),
    )
    planned = plan(read_words([*words, "force=true"]), library)
    slots = planned.setup.cluster.slots[: settings.workers]
    cores = {core for slot in slots for core in slot.cores}
    if len(cores) < settings.workers or any(len(slot.cores) != 1 for slot in slots):
        fact = f"{settings.cluster} has no {settings.workers} slots with a core of their own"
        raise UserError([Problem("--cluster", fact, "use one that has, or fewer --workers")])
    (job,) = planned.trace.jobs
    order = training_order(LiveJob(job, job.global_batch), planned.setup, {}, Live())
    interface = interface_of(planned.setup.cluster.hosts[slots[0].host].address)
    return Cell(
        workload=workload,
        spec=order.workload,
        words=words,
        cores=tuple(slot.cores[0] for slot in slots),
        environment={
            **kept_heap.environment(),
            **({"GLOO_SOCKET_IFNAME": interface} if interface else {}),
        },
    )


def run_trial(trial: Trial, settings: Settings, folder: Path) -> dict[System, Outcome]:
    """Run one trial, under one system after the other."""
    order = [*System]
    random.Random(f"{settings.seed} {trial.name}").shuffle(order)
    run = {System.TORCHFT: _torchft, System.STOP_FREE: _stop_free}
    found = {}
    for system in order:
        log = folder / "logs" / f"{trial.name}-{system}.log"
        try:
            found[system] = run[system](trial, settings, log)
        except CourseError as error:
            found[system] = Outcome(None, "", f"{error}; log: {log.name}")
    return {system: found[system] for system in System}


def _torchft(trial: Trial, settings: Settings, log: Path) -> Outcome:
    spec, out = trial.cell.spec, log.with_suffix(".json")
    out.unlink(missing_ok=True)  # the result of an earlier attempt must not count
    words = [
        *(spec.target, "--options", json.dumps(dict(spec.options))),
        *("--replicas", str(settings.workers), "--cores", *map(str, trial.cell.cores)),
        *("--batch", str(settings.batch), "--wrapper", settings.wrapper),
        *("--steps", str(STEPS_BEFORE), "--settle-s", str(_SETTLE_S)),
        *("--heartbeat-s", str(settings.heartbeat_s), "--out", str(out)),
    ]
    _to_the_end(PointProcess(words, log, settings.module, trial.cell.environment))
    document = json.loads(out.read_text(encoding="utf-8"))
    steps = [Step(*step) for step in document["steps"]]
    return Outcome(Course(steps, document["asked_s"], document["killed_s"]), "the newest")


def _stop_free(trial: Trial, _: Settings, log: Path) -> Outcome:
    words = [*trial.cell.words, f"repetition={trial.number}", "force=true"]
    planned = plan(read_words(words), check_workloads=False)
    _to_the_end(PointProcess(words, log))
    stored = planned.stored()
    assert stored is not None
    records = load_run(stored.path).records
    (job,) = records.jobs
    if job.state != JobState.FINISHED:
        raise CourseError(f"the job is {job.state}: {job.reason}")
    grown = [change for change in records.changes if change.kind == ChangeKind.RESCALE]
    if not grown or len(records.faults) != 1:
        raise CourseError(f"{len(grown)} changes and {len(records.faults)} faults, not one each")
    fault = records.faults[0]
    known = [name for name, is_so in (("first", fault.was_first), ("leader", fault.led)) if is_so]
    steps = [
        Step(step.started_s, step.started_s + step.duration_s, step.num_workers)
        for step in records.steps
    ]
    course = Course(steps, grown[0].requested_s, fault.at_s)
    return Outcome(course, " and ".join(known) or "another")


def _to_the_end(process: PointProcess) -> None:
    try:
        process.start()
        code = process.wait()
    except BaseException:
        # Leave it time to end its workers and to remove its folder.
        stop_all([process], signal.SIGTERM, _GRACE_S, lambda text: print(text, file=sys.stderr))
        raise
    process.kill()
    if code != 0:
        # Keep error lines and the last line only: a record must not contain paths of this machine.
        lines = process.tail(_LOG_LINES)
        said = [*(line for line in lines[:-1] if _ERROR.match(line)), *lines[-1:]]
        raise CourseError(f"{process.module} ended with {code}: {'; '.join(said)}")


def order_of(cells: Sequence[Cell], trials: int, seed: int) -> list[Trial]:
    """Return all trials: each workload once, in drawn order, then each a second time, and so on."""
    drawn = random.Random(f"torchft {seed}")
    return [Trial(cell, number) for cell, number in drawn_rounds(cells, trials, drawn)]

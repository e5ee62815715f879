"""Trials of the overhead study: their plan, their order, and the run of one.

A trial of a workload at a number of workers has three programs: the plain script, the backend
through the ordinary live engine, and the plain script again. All three train the same samples in
the same order with the same seed, on the same cores, and take turns on them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from harness.bench.overhead.settings import LEAST_COUNTED, Settings
from harness.bench.overhead.turns import Program, periods_in, take_turns
from harness.bench.trial_loop import drawn_rounds
from harness.configuration.compose import quote
from harness.contracts.abilities import Reference
from harness.contracts.job_state import JobState
from harness.contracts.training_order import TrainingOrder
from harness.engines.live.job import LiveJob, training_order
from harness.engines.live.options import Live
from harness.engines.live.reference_run import (
    FixedTraining,
    FixedTrainingError,
    fixed_process,
    read_lines,
)
from harness.errors import Problem, RunError, UserError
from harness.files.safe_names import file_name
from harness.machine import malloc as kept_heap
from harness.machine.child_process import PointProcess
from harness.machine.network import interface_of
from harness.results.store import load_run
from harness.run.plan import Library, RunPlan, plan
from harness.sweep.runner import read_words
from harness.trace.commands.one_job import write_one_job

_LOG_LINES = 6
_PATIENCE = {
    "hang_timeout_s": 3600.0,
    "leader_expiry_s": 3600.0,
    "recovery_timeout_s": 7300.0,
    "collective_timeout_s": 7300.0,
}
"""Long time-outs for the backend, since a worker without a turn is stopped and looks like one that
hangs. Workers and leaders send heartbeats as often as usual, so the cost of these stays the
same."""


class Kind(StrEnum):
    """Programs of a trial."""

    PLAIN = "plain"
    BACKEND = "backend"
    AGAIN = "again"
    """The plain script a second time, to measure the noise."""


@dataclass(frozen=True, slots=True, eq=False)
class OverheadCell:
    """One workload at one number of workers, with the training that every trial does."""

    workload: str
    """Workload as ``POOL/NAME``."""
    num_workers: int
    words: tuple[str, ...]
    """Overrides of the run, without the repetition."""
    steps: int
    batch: int
    logical: int
    """Logical workers; 0: one for each worker."""
    order: TrainingOrder
    cores: tuple[int, ...]
    environment: Mapping[str, str]

    @property
    def name(self) -> str:
        """Name for users and for file names."""
        logical = f"-{self.logical}v" if self.logical else ""
        return f"{self.workload.replace('/', '-')}-{self.num_workers}w{logical}"

    @property
    def training(self) -> FixedTraining:
        """The training that every program does."""
        spec = self.order.workload
        return FixedTraining(
            target=spec.target,
            options=spec.options,
            seed=self.order.seed,
            num_workers=self.num_workers,
            global_batch=self.batch,
            num_steps=self.steps,
        )

    @property
    def facts(self) -> dict[str, Any]:
        """Facts that determine the work of a trial."""
        spec = self.order.workload
        return {
            "target": spec.target,
            "options": dict(spec.options),
            "num_workers": self.num_workers,
            "cores": list(self.cores),
            "steps": self.steps,
            "batch": self.batch,
            **({"logical_workers": self.logical} if self.logical else {}),
            "seed": self.order.seed,
        }


@dataclass(frozen=True, slots=True)
class OverheadTrial:
    """One measurement of a cell."""

    cell: OverheadCell
    number: int

    @property
    def name(self) -> str:
        """Name for users and for file names."""
        return f"{self.cell.name}-t{self.number}"


Rounds = list[dict[Kind, list[float]]]
"""Periods of each program's steps (start to next start) in each round, seconds."""


class TrialError(RunError):
    """Error of a program that did not train as planned; its text gives the reason and the log."""


def plan_cells(settings: Settings, folder: Path) -> list[OverheadCell]:
    """Return every workload at every number of workers, checked as ordinary runs are.

    Args:
        settings: options of the study.
        folder: traces and runs are written below it.

    Raises:
        UserError: all problems of all cells, each once.
    """
    library = Library()
    cells: list[OverheadCell] = []
    problems: dict[str, Problem | str] = {}
    for workload in settings.workloads:
        for num_workers in settings.workers:
            try:
                cells.append(_plan_cell(settings, workload, num_workers, folder, library))
            except UserError as error:
                problems |= {str(problem): problem for problem in error.problems}
    if problems:
        raise UserError(problems.values())
    return cells


def _plan_cell(
    settings: Settings, workload: str, num_workers: int, folder: Path, library: Library
) -> OverheadCell:
    pool, _, name = workload.partition("/")
    steps = settings.num_steps(workload)
    trace = write_one_job(
        folder / "traces",
        name,
        settings.batch,
        (num_workers,),
        steps,
        "written by python -m harness.bench.overhead",
        settings.logical or None,
    )
    words: tuple[str, ...] = (
        f"trace={quote(str(trace))}",
        f"workload={pool}",
        f"cluster={settings.cluster}",
        f"backend={settings.backend}",
        f"seed={settings.seed}",
        f"results_dir={quote(str(folder / 'runs'))}",
        *("scheduler=fifo", "engine=live", "engine.pace=none", "engine.fast_forward=false"),
        *("profile=recorded", "tracking=none", "progress=false"),
    )
    config = read_words([*words, "force=true"])
    if "leader_expiry_s" in config.backend:
        words += tuple(f"backend.{name}={value}" for name, value in _PATIENCE.items())
    else:
        words += (f"backend.hang_timeout_s={_PATIENCE['hang_timeout_s']}",)
    planned = plan(read_words([*words, "force=true"]), library)
    slots = planned.setup.cluster.slots[:num_workers]
    cores = [slot.cores for slot in slots]
    if any(len(own) != 1 for own in cores) or len(set(cores)) < len(cores):
        fact = f"{settings.cluster} does not give each slot one core of its own"
        raise UserError([Problem("--cluster", fact, "use one that does, such as cpu2")])
    (job,) = planned.trace.jobs
    address = planned.setup.cluster.hosts[slots[0].host].address
    interface = interface_of(address)
    return OverheadCell(
        workload=workload,
        num_workers=num_workers,
        words=words,
        steps=steps,
        batch=settings.batch,
        logical=settings.logical,
        order=training_order(LiveJob(job, job.global_batch), planned.setup, {}, Live()),
        cores=tuple(own[0] for own in cores),
        environment={"GLOO_SOCKET_IFNAME": interface} if interface else {},
    )


def order_of(cells: Sequence[OverheadCell], trials: int, seed: int) -> list[OverheadTrial]:
    """Return all trials: each cell once, in drawn order, then each a second time, and so on."""
    drawn = random.Random(f"overhead {seed}")
    return [OverheadTrial(cell, number) for cell, number in drawn_rounds(cells, trials, drawn)]


def run_trial(trial: OverheadTrial, settings: Settings, folder: Path) -> Rounds:
    """Train the programs of a trial by turns, and return the periods of their steps.

    Args:
        trial: the trial to run.
        settings: the plain script, the length of a turn, and the number of steps to leave out.
        folder: runs and logs are written below it.

    Raises:
        TrialError: a program failed, or trained other steps or slots than planned.
    """
    cell = trial.cell
    plain = {
        kind: folder / "plain" / f"{trial.name}-{kind}.jsonl" for kind in (Kind.PLAIN, Kind.AGAIN)
    }
    words = [*cell.words, f"repetition={trial.number}", "force=true"]
    planned = plan(read_words(words), check_workloads=False)
    log = folder / "backend" / f"{trial.name}.log"
    programs: dict[Kind, Program] = {
        Kind.BACKEND: Program(PointProcess(words, log), partial(_has_steps, planned)),
        **{kind: _script(cell, settings.reference, out) for kind, out in plain.items()},
    }
    rounds = take_turns(
        programs, settings.turn_of(cell.workload), random.Random(f"turns {trial.name}")
    )
    started: dict[Kind, list[float]] = {}
    # Failed programs first: their error explains why others may not have been started.
    for kind in sorted(programs, key=lambda kind: programs[kind].process.returncode in (None, 0)):
        process = programs[kind].process
        if kind is Kind.BACKEND:
            started[kind] = _steps_of_run(trial, planned, process)
            continue
        try:
            lines = read_lines(process, plain[kind])
        except FixedTrainingError as error:
            raise TrialError(f"{trial.name}: {error}") from error
        started[kind] = [float(line["started"]) for line in lines]
    for kind, steps in started.items():
        if len(steps) != cell.steps:
            raise TrialError(f"{trial.name}: {kind} trained {len(steps)} of {cell.steps} steps")
    counted = {kind: steps[settings.drop :] for kind, steps in started.items()}
    found = [{kind: periods_in(turns[kind], counted[kind]) for kind in Kind} for turns in rounds]
    found = [periods for periods in found if min(map(len, periods.values())) >= LEAST_COUNTED]
    if not found:
        fact = f"no round has {LEAST_COUNTED} steps of each; raise --turn, and --steps with it"
        if not rounds:
            fact = "a program ended within the first round; raise --steps or lower --turn"
        raise TrialError(f"{trial.name}: {fact}")
    return found


def _script(cell: OverheadCell, reference: str, out: Path) -> Program:
    """Return the plain script as a program of a trial."""
    begun = out.with_suffix(".begun")
    begun.unlink(missing_ok=True)  # an earlier attempt's mark would start the turns too early
    words = ["--begun", str(begun)]
    if cell.logical > cell.num_workers:
        words += ["--accumulate", str(cell.logical // cell.num_workers)]
        words += ["--bare"] if cell.num_workers == 1 else []
    # Give the plain script the heap settings of workers: they are not a cost of elasticity.
    heap = {**kept_heap.environment(), **cell.environment}
    script = Reference(reference, tuple(words))
    return Program(fixed_process(cell.training, script, cell.cores, heap, out), begun.exists)


def _has_steps(planned: RunPlan) -> bool:
    """Return whether an unfinished run has logged a step."""
    logs = Path(planned.config.results_dir).glob(f".partial-{planned.run_id}-*/jobs/*/steps.jsonl")
    return any(log.stat().st_size > 0 for log in logs)


def _steps_of_run(trial: OverheadTrial, planned: RunPlan, program: PointProcess) -> list[float]:
    """Return when the steps of the backend's finished run started."""
    stored = planned.stored()
    if program.returncode != 0 or stored is None:
        said = "\n".join(program.tail(_LOG_LINES))
        ended = f"the run ended with {program.returncode}"
        raise TrialError(f"{trial.name}: {ended}; log: {program.log_path}\n{said}")
    records = load_run(stored.path).records
    (job,) = records.jobs
    if job.state != JobState.FINISHED:
        raise TrialError(f"{trial.name}: the job is {job.state}: {job.reason}; see {stored.path}")
    held = {slot for grant in records.grants for slot in grant.slots}
    slots = planned.setup.cluster.slots
    if {slots[slot].cores[0] for slot in held} != set(trial.cell.cores):
        raise TrialError(f"{trial.name}: trained on slots {sorted(held)}, not on the first ones")
    log = stored.path / "jobs" / file_name(job.job_id) / "steps.jsonl"
    with log.open(encoding="utf-8") as lines:
        return [float(json.loads(line)["started"]) for line in lines]

"""Blocks of training steps: which, in which order, and how one is run.

A trial of a workload at a number of workers is three blocks: the plain script, the backend
through the ordinary live engine, and the plain script again, in drawn order. All three train
the same samples in the same order with the same seed, on the same cores.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness import kept_heap
from harness.compose import quote
from harness.contracts.engine import JobState
from harness.contracts.training import Reference, TrainingOrder
from harness.engines.live import Live
from harness.engines.live_job import LiveJob, training_order
from harness.experiment import Library, Plan, execute, plan
from harness.fixed_training import FixedTraining, FixedTrainingError, train_fixed
from harness.network import interface_of
from harness.overhead.settings import Settings
from harness.problems import Problem, UserError
from harness.store import load_run
from harness.sweep import read_words
from harness.trace.one_job import write_one_job


class Kind(StrEnum):
    """What trains in a block."""

    PLAIN = "plain"
    BACKEND = "backend"
    AGAIN = "again"
    """The plain script a second time: the noise."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One workload at one number of workers, as it is trained in every block."""

    workload: str
    """``POOL/NAME``."""
    num_workers: int
    words: tuple[str, ...]
    """The point's overrides, but for the repetition."""
    steps: int
    batch: int
    logical: int
    """Logical workers; 0: one for each worker."""
    order: TrainingOrder
    cores: tuple[int, ...]
    environment: Mapping[str, str]

    @property
    def name(self) -> str:
        """For a person, and for names of files."""
        logical = f"-{self.logical}v" if self.logical else ""
        return f"{self.workload.replace('/', '-')}-{self.num_workers}w{logical}"

    @property
    def training(self) -> FixedTraining:
        """What every block trains."""
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
        """What determines the work of a block."""
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
class Block:
    """One stretch of steps to measure."""

    cell: Cell
    trial: int
    kind: Kind

    @property
    def name(self) -> str:
        """For a person, and for names of files."""
        return f"{self.cell.name}-t{self.trial}-{self.kind}"


class BlockError(Exception):
    """A block did not train as it should; the text says what happened and where its log is."""


def plan_cells(settings: Settings, folder: Path) -> list[Cell]:
    """Every workload at every number of workers, checked as ordinary runs are.

    Args:
        settings: what to measure.
        folder: traces and runs are written below it.

    Raises:
        UserError: all problems of all cells, each once.
    """
    library = Library()
    cells: list[Cell] = []
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
) -> Cell:
    pool, _, name = workload.partition("/")
    steps = settings.num_steps(workload)
    trace = write_one_job(
        folder / "traces",
        name,
        settings.batch,
        (num_workers,),
        steps,
        "written by python -m harness.overhead",
        settings.logical or None,
    )
    words = (
        f"trace={quote(str(trace))}",
        f"workload={pool}",
        f"cluster={settings.cluster}",
        f"backend={settings.backend}",
        f"seed={settings.seed}",
        f"results_dir={quote(str(folder / 'runs'))}",
        *("scheduler=fifo", "engine=live", "engine.pace=none", "engine.fast_forward=false"),
        *("profile=recorded", "tracking=none", "progress=false"),
    )
    planned = plan(read_words([*words, "force=true"]), library)
    slots = planned.setup.cluster.slots[:num_workers]
    cores = [slot.cores for slot in slots]
    if any(len(own) != 1 for own in cores) or len(set(cores)) < len(cores):
        fact = f"{settings.cluster} does not give each slot one core of its own"
        raise UserError([Problem("--cluster", fact, "use one that does, such as cpu2")])
    (job,) = planned.trace.jobs
    address = planned.setup.cluster.hosts[slots[0].host].address
    interface = interface_of(address)
    return Cell(
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


def order_of(cells: Sequence[Cell], trials: int, seed: int) -> list[Block]:
    """All blocks: trial by trial, cells in drawn order, a cell's three blocks in drawn order.

    What is compared is measured close together, so that drift hits it alike.
    """
    drawn = random.Random(f"overhead {seed}")
    blocks = []
    for trial in range(trials):
        for cell in drawn.sample(list(cells), len(cells)):
            kinds = drawn.sample(list(Kind), len(Kind))
            blocks += [Block(cell, trial, kind) for kind in kinds]
    return blocks


def run_block(block: Block, reference: str, folder: Path) -> list[float]:
    """Train a block; the period of every step (start to next start), seconds.

    Raises:
        BlockError: training failed, or was not what it should be.
    """
    if block.kind is Kind.BACKEND:
        started = _through_engine(block)
    else:
        started = _through_script(block, reference, folder)
    if len(started) != block.cell.steps:
        raise BlockError(f"{block.name}: {len(started)} of {block.cell.steps} steps were trained")
    return [later - earlier for earlier, later in pairwise(started)]


def _through_engine(block: Block) -> list[float]:
    """The ordinary way: planned, executed by the live engine, stored."""
    words = [*block.cell.words, f"repetition={block.trial}", "force=true"]
    planned: Plan = plan(read_words(words), check_workloads=False)
    stored = load_run(execute(planned, ["python", "-m", "harness", *words]))
    records = stored.records
    (job,) = records.jobs
    if job.state != JobState.FINISHED:
        raise BlockError(f"{block.name}: the job is {job.state}: {job.reason}; see {stored.path}")
    held = {slot for grant in records.grants for slot in grant.slots}
    slots = planned.setup.cluster.slots
    if {slots[slot].cores[0] for slot in held} != set(block.cell.cores):
        raise BlockError(f"{block.name}: trained on slots {sorted(held)}, not on the first ones")
    return [step.started_s for step in records.steps]


def _through_script(block: Block, reference: str, folder: Path) -> list[float]:
    """The stand-alone script, in a process of its own."""
    cell = block.cell
    out = folder / "plain" / f"{block.name}.jsonl"
    words = []
    if cell.logical > cell.num_workers:
        words += ["--accumulate", str(cell.logical // cell.num_workers)]
        words += ["--bare"] if cell.num_workers == 1 else []
    program = Reference(reference, tuple(words))
    try:
        # With the heap that workers have: it is no part of what elasticity costs.
        heap = {**kept_heap.environment(), **cell.environment}
        lines = train_fixed(cell.training, program, cell.cores, heap, out)
    except FixedTrainingError as error:
        raise BlockError(f"{block.name}: {error}") from error
    return [float(line["started"]) for line in lines]

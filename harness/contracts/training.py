"""Workload and backend: what a training step computes, and who computes it when.

A workload knows no rank, no device and no backend. A backend knows no model. The cut
between the gradients and the update belongs to the backend: there workers are summed.
Backends are driven from a process that never imports a training library; only their
worker processes do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from harness.cluster import Cluster
from harness.contracts.engine import Abilities, Change
from harness.contracts.evidence import Evidence
from harness.contracts.launcher import Launcher, Warmth

if TYPE_CHECKING:
    import torch

Batch: TypeAlias = "Mapping[str, torch.Tensor]"


class Workload(Protocol):
    """A model with its data, loss, update and evaluation. Implementations: ``workloads/``.

    Everything is a function of the seed and the arguments: two calls give the same bits.
    """

    name: str
    size: str
    num_samples: int
    """Samples of an epoch; ids are 0..num_samples-1."""

    def build_model(self, seed: int) -> torch.nn.Module:
        """A fresh model on the CPU, parameters drawn from ``seed``."""
        ...

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """An optimizer over the model's parameters."""
        ...

    def samples(self, ids: Sequence[int], epochs: Sequence[int] | None = None) -> Batch:
        """The samples with these ids, stacked along dimension 0, on the CPU. What belongs to one
        of them is the same whatever the others are.

        Args:
            ids: of the samples.
            epochs: the epoch in which each is consumed; a workload that augments its samples
                varies them from epoch to epoch. None: as they are stored.
        """
        ...

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Mean loss over the samples of ``batch``; a scalar to call ``backward`` on."""
        ...

    def update(
        self,
        optimizer: torch.optim.Optimizer,
        global_batch: float,
        step: int,
        samples: int | None = None,
    ) -> None:
        """Apply the gradients: learning rate for this global batch and step, then ``step()``.

        The learning rate follows the batch linearly from the workload's own reference batch.

        Args:
            optimizer: of ``build_optimizer``.
            global_batch: samples of the step; or, where the batch is adapted, those of the batch
                whose learning rate the step is to have, which need not be whole.
            step: counted from 0.
            samples: consumed by the steps before, which say the epoch; None: as many as
                ``step`` steps of this batch.
        """
        ...

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Metrics on held-out samples; the first entry is the one to watch."""
        ...


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """How a worker process builds its workload: a class path and plain options."""

    name: str
    target: str
    """``package.module.Class``."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdaptiveBatch:
    """How a job adapts its global batch and learning rate while it trains (``scaling=adaptive``;
    Qiao et al., "Pollux", OSDI '21, simplified as in ``systems.runtime.adaptive_batch``)."""

    initial: int
    """Global batch that the job was given, samples: the smallest there is, m0."""
    largest: int
    """Largest global batch, samples."""
    target_samples: int
    """The job is finished once it has consumed so many."""
    step_cost_samples: float
    """What a step costs beside its samples, in samples that one worker computes meanwhile."""
    every: int
    """Steps from one choice of the batch to the next."""
    smoothing: float
    """Of the gradient statistics: what is kept of the mean in every step."""


@dataclass(frozen=True, slots=True)
class TrainingOrder:
    """What a backend needs to train one job, besides the slots."""

    job_id: str
    workload: WorkloadSpec
    seed: int
    target_step: int
    """Steps to execute before the job is finished; ``hold`` may move it."""
    job_dir: Path
    """Logs and step files of the job go here (``steps.jsonl``: what the engine reads,
    ``accusations.jsonl`` where the backend kills who is silent, and ``coordination-*.jsonl`` where
    workers have a leader), and its checkpoints into ``checkpoints/``, which the engine removes
    once the run has ended."""
    step_floor_s: Mapping[int, float] = field(default_factory=dict)
    """Paced mode: least wall-clock seconds of a step, by number of slots; empty: unpaced."""
    digest_every: int = 0
    """Record a digest of the state every so many steps; 0: only at the end."""
    evaluate_epochs: float = 0.0
    """Evaluate whenever so many epochs have been trained, into ``evaluations.jsonl`` of the
    job's directory; 0: only at the end."""
    adaptive: AdaptiveBatch | None = None
    """How the batch is adapted; None: it is what changes say. Only for backends that can."""
    evidence: Evidence = field(default_factory=Evidence)
    """Of which steps to keep evidence, in the job's directory. A backend whose workers are not
    this project's own may keep none."""
    marks: Path | None = None
    """Folder in which every worker keeps its mark (``contracts.marks``), in a file with the
    name of its process; None: none does. A backend may have no marks."""


class ReportKind(StrEnum):
    """What a backend reports."""

    ACCEPTED = "accepted"
    RETRY = "retry"
    DONE = "done"
    FAILED = "failed"
    PROGRESS = "progress"
    FINISHED = "finished"
    LOST = "lost"
    SHRUNK = "shrunk"


@dataclass(frozen=True, slots=True)
class Report:
    """One fact from a backend, on the clock of ``time.monotonic``.

    DONE comes once the first step after a START, RESUME, RESCALE or MIGRATE has ended, or
    once every process is gone after a SUSPEND or STOP; FINISHED once the last step has ended
    and every process is gone; LOST when the workers died and cannot go on by themselves;
    SHRUNK once the first step without workers that died, or that the backend has removed, has
    ended. SHRUNK comes only while no change of the job is in flight: one that was has been
    answered with DONE, FAILED or RETRY before it.
    """

    kind: ReportKind
    job_id: str
    at_s: float
    change_id: int | None = None
    step: int = 0
    """Steps executed by the job so far, over all its processes and restarts."""
    samples: int = 0
    """Samples consumed by those steps."""
    step_s: float = 0.0
    """Mean duration of the recent steps at the present size; 0 if none has ended."""
    stopping_time_s: float | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """Duration of each phase of the change, seconds, as the backend names its phases; under
    one that stops its workers: save, stop, spawn, import, build, group, load, first_step.
    Where workers go through a phase side by side, the longest. With SHRUNK: of the recovery."""
    reason: str = ""
    """Why; with FINISHED, which processes had to be killed since they did not end by themselves."""
    results: Mapping[str, float | str] = field(default_factory=dict)
    """With FINISHED: evaluation metrics and digests."""
    slots: tuple[int, ...] = ()
    """With SHRUNK: the slots that remain, in rank order."""
    lost_slots: tuple[int, ...] = ()
    """With SHRUNK: the slots whose workers died or were removed; they are free."""
    stragglers: tuple[str, ...] = ()
    """With SHRUNK: the workers among them that were removed since they were slow, by the names
    of their processes. ``phases_s`` then has ``remove``, from their detection to this report,
    and ``remove_switch``, to the first step without them."""
    of_machine: bool = False
    """With LOST: whether the machine failed (a full disk, a launcher that lost its processes), so
    that nothing is known against the job."""


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases that a backend times in every change of a kind, in the order they begin."""

    start: tuple[str, ...]
    """Of a START or RESUME."""
    rescale: tuple[str, ...]
    """Of every RESCALE; one with newcomers has more."""
    suspend: tuple[str, ...]
    stopped: tuple[str, ...]
    """Of a RESCALE, where it has them: those in which the workers that stay do not train. They
    add up to the stopping time."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A program that trains a job on a fixed number of workers, and shares no line with any
    backend: what a backend's bits are held to (``engine.check_reference``).

    It is run on this machine as ``python -m MODULE TARGET --options JSON --workers N --cores C..
    --batch B --steps S --seed SEED --out FILE`` and ``words``: class and options of the workload,
    the number of workers and a core for each, their global batch, steps, seed. When it has ended it
    writes FILE, JSON lines: one for each step with ``loss`` (the global batch's mean) and
    ``losses`` (of every worker), both as ``float.hex``, and a last one with the digests of the
    state by name (``digest_...``), as a job's results have them.
    """

    module: str
    words: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Set in its environment: which kernels libraries may use."""


class Backend(Protocol):
    """The mechanism that starts and rescales a job's workers. ``systems/backends/``.

    No call waits for workers: requests return at once and ``poll`` reports what became of
    them. A request for a job that still has one in flight is answered with RETRY.
    """

    name: str

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        ...

    @property
    def phases(self) -> Phases:
        """What its reports of changes time."""
        ...

    @property
    def warmth(self) -> Warmth:
        """How its workers start."""
        ...

    @property
    def executors(self) -> int:
        """Worker processes that a slot of a job has, at most."""
        ...

    @property
    def checkpoint_every(self) -> int:
        """Steps after which it writes a checkpoint though no change needs one; 0: it never does,
        and a loss costs all that was done since the last change that saved."""
        ...

    def problems(self, cluster: Cluster) -> list[str]:
        """What it needs around it, or of the cluster, and cannot find: option, fact and way
        out, one a line.

        Asked before a live run; may wait a few seconds, starts nothing.
        """
        ...

    def cautions(self, cluster: Cluster) -> list[str]:
        """What its user may count on and it does not promise on these slots: option, fact and way
        out, one a line. Told before a live run, which they do not keep from beginning."""
        ...

    def bitwise(self, cluster: Cluster) -> bool:
        """Whether its jobs end with the bits of their ``reference``, whichever of these slots they
        are given."""
        ...

    def reference(self, cluster: Cluster) -> Reference:
        """What its jobs are held to on these slots: training on as many fixed workers as the job
        has logical workers or, without such, as it was started on.

        Raises:
            ValueError: they are equal to no such training on any slots; why, and the way out.
        """
        ...

    def open(self, cluster: Cluster, launcher: Launcher) -> None:
        """Make ready; called once before any request."""
        ...

    def start(self, change: Change, order: TrainingOrder) -> None:
        """Start a job's workers from scratch on ``change.slots``."""
        ...

    def rescale(self, change: Change) -> None:
        """Go on on ``change.slots`` (also for MIGRATE), with ``change.global_batch``."""
        ...

    def suspend(self, change: Change) -> None:
        """Write a checkpoint and stop every process of the job."""
        ...

    def resume(self, change: Change) -> None:
        """Start from the checkpoint on ``change.slots``."""
        ...

    def stop(self, change: Change) -> None:
        """End the job without finishing it."""
        ...

    def hold(self, job_id: str, target_step: int) -> None:
        """Move the step at which the job finishes; in the past means at the next boundary."""
        ...

    def poll(self, timeout_s: float) -> list[Report]:
        """Reports since the last call, in order; waits up to ``timeout_s`` for the first."""
        ...

    def close(self) -> None:
        """End every process. Safe to call twice."""
        ...

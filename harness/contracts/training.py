"""Workload and backend: what a training step computes, and which workers compute it when.

A workload knows no rank, no device and no backend. A backend knows no model. Between the gradients
and the update the backend takes over and sums over the workers. Backends are driven from a process
that never imports a training library; only their worker processes import one.
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
    """Model with its data, loss, update and evaluation. Implementations: ``workloads/``.

    Every result depends only on the seed and the arguments: two equal calls give the same bits.
    """

    name: str
    size: str
    num_samples: int
    """Samples of an epoch; their ids are 0 to num_samples - 1."""

    def build_model(self, seed: int) -> torch.nn.Module:
        """Return a new model on the CPU, with its parameters drawn from ``seed``."""
        ...

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return an optimizer over the model's parameters."""
        ...

    def samples(self, ids: Sequence[int], epochs: Sequence[int] | None = None) -> Batch:
        """Return the samples with these ids, stacked along dimension 0, on the CPU. The values of a
        sample do not depend on the other samples in the call.

        Args:
            ids: ids of the samples.
            epochs: the epoch in which each sample is consumed; a workload that augments its samples
                varies them from epoch to epoch. None: as they are stored.
        """
        ...

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean loss over the samples of ``batch``, a scalar to call ``backward`` on."""
        ...

    def update(
        self,
        optimizer: torch.optim.Optimizer,
        global_batch: float,
        step: int,
        samples: int | None = None,
    ) -> None:
        """Apply the gradients: set the learning rate for this global batch and step, then call
        ``step()``.

        The learning rate is proportional to the global batch, from the workload's own reference
        batch.

        Args:
            optimizer: as ``build_optimizer`` returned it.
            global_batch: samples of the step. Where the batch is adapted: the batch whose learning
                rate the step is to have, which may be a fraction.
            step: counted from 0.
            samples: samples consumed by the steps before, from which the epoch follows. None: as
                many as ``step`` steps of this batch consume.
        """
        ...

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return metrics on held-out samples; the first entry is the main metric."""
        ...


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """Class path and plain options from which a worker process builds its workload."""

    name: str
    target: str
    """``package.module.Class``."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdaptiveBatch:
    """Parameters by which a job adapts its global batch and learning rate while it trains
    (``scaling=adaptive``; Qiao et al., "Pollux", OSDI '21, simplified as in
    ``systems.runtime.worker.adaptive_batch``)."""

    initial: int
    """Global batch that the job was given, in samples; also the smallest batch, m0."""
    largest: int
    """Largest global batch, samples."""
    target_samples: int
    """Samples after which the job is finished."""
    step_cost_samples: float
    """Fixed cost of a step, as the number of samples that one worker computes in that time."""
    every: int
    """Steps from one choice of the batch to the next."""
    smoothing: float
    """Share of the old mean that each step keeps in the gradient statistics' running means."""


@dataclass(frozen=True, slots=True)
class TrainingOrder:
    """Everything that a backend needs to train one job, except the slots."""

    job_id: str
    workload: WorkloadSpec
    seed: int
    target_step: int
    """Steps to execute before the job is finished; ``Backend.hold`` may change it."""
    job_dir: Path
    """Folder of the job's logs and step files. The engine reads ``steps.jsonl``. The file
    ``accusations.jsonl`` exists where the backend kills silent workers, and
    ``coordination-*.jsonl`` where workers elect a leader. Checkpoints go into ``checkpoints/``,
    which the engine removes once the run has ended."""
    step_floor_s: Mapping[int, float] = field(default_factory=dict)
    """Least wall-clock seconds of a step, by number of slots (paced mode); empty: unpaced."""
    digest_every: int = 0
    """Steps from one recorded digest of the state to the next; 0: only at the end."""
    evaluate_epochs: float = 0.0
    """Epochs of training from one evaluation to the next, recorded in ``evaluations.jsonl`` of the
    job's directory; 0: only at the end."""
    adaptive: AdaptiveBatch | None = None
    """Parameters of the adaptive batch; None: each change sets the batch. Only for backends with
    the ability ``adapt_batch``."""
    evidence: Evidence = field(default_factory=Evidence)
    """Steps for which to keep evidence, in the job's directory. A backend that does not run this
    project's own workers may keep none."""
    marks: Path | None = None
    """Folder in which every worker keeps its mark (``contracts.marks``), in a file named after its
    process; None: no marks. A backend may have no marks."""


class ReportKind(StrEnum):
    """Kinds of report from a backend; ``Report`` says when each comes."""

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

    DONE comes once the first step after a START, RESUME, RESCALE or MIGRATE has ended. After a
    SUSPEND or STOP it comes once every process is gone. FINISHED comes once the last step has ended
    and every process is gone. LOST comes when the workers died and cannot go on by themselves.
    SHRUNK comes once the survivors have ended their first step without workers that died or that
    the backend removed.

    SHRUNK comes only while the job has no change in flight: the backend answers such a change with
    DONE, FAILED or RETRY first.
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
    """Mean duration of the recent steps at the present size; 0 before the first step has ended."""
    stopping_time_s: float | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """Duration of each phase of the change, in seconds, under the backend's names of its phases. A
    backend that stops its workers has: save, stop, spawn, import, build, group, load, first_step. A
    phase that workers go through in parallel counts with its longest duration. With SHRUNK: phases
    of the recovery."""
    reason: str = ""
    """Reason for the report. With FINISHED: the processes that had to be killed because they did
    not end by themselves."""
    results: Mapping[str, float | str] = field(default_factory=dict)
    """With FINISHED: evaluation metrics and digests."""
    slots: tuple[int, ...] = ()
    """With SHRUNK: the slots that remain, in rank order."""
    lost_slots: tuple[int, ...] = ()
    """With SHRUNK: the slots whose workers died or were removed; they are free."""
    stragglers: tuple[str, ...] = ()
    """With SHRUNK: process names of the workers in ``lost_slots`` that were removed because they
    were slow. ``phases_s`` then has ``remove``, from their detection to this report, and
    ``remove_switch``, from their detection to the first step without them."""
    of_machine: bool = False
    """With LOST: True if the machine failed (a full disk, a launcher that lost its processes). Such
    a loss does not count against the job."""


@dataclass(frozen=True, slots=True)
class Phases:
    """Phases that a backend times in every change of a kind, in the order in which they begin."""

    start: tuple[str, ...]
    """Phases of a START or RESUME."""
    rescale: tuple[str, ...]
    """Phases of every RESCALE; a RESCALE with newcomers has more."""
    suspend: tuple[str, ...]
    stopped: tuple[str, ...]
    """Phases of a RESCALE, if present in it, in which the workers that stay do not train. Their sum
    is the stopping time."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Program that trains a job on a fixed number of workers and shares no code with any backend.
    The bits of a backend are compared with its result (``engine.check_reference``).

    The engine runs it on this machine as ``python -m MODULE TARGET --options JSON --workers N
    --cores C.. --batch B --steps S --seed SEED --out FILE`` and ``words``. The arguments are the
    workload's class and options, the number of workers with a core for each, their global batch,
    the steps and the seed.

    The program writes FILE, as JSON lines, before it ends. Each step has a line with ``loss`` (mean
    over the global batch) and ``losses`` (one for each worker), as ``float.hex``. The last line has
    the digests of the state by name (``digest_...``), as in a job's results.
    """

    module: str
    words: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the program; they choose the kernels that libraries may use."""


class Backend(Protocol):
    """Mechanism that starts and rescales a job's workers. Implementations: ``systems/backends/``.

    No call waits for workers: requests return at once, and ``poll`` reports their outcome. A
    request for a job that already has a request in flight is answered with RETRY.
    """

    name: str

    @property
    def abilities(self) -> Abilities:
        """Abilities that a scheduler may require of the backend."""
        ...

    @property
    def phases(self) -> Phases:
        """Phases that the backend times in its reports of changes."""
        ...

    @property
    def warmth(self) -> Warmth:
        """Warmth with which the backend starts its workers."""
        ...

    @property
    def executors(self) -> int:
        """Most worker processes that one slot of a job has."""
        ...

    @property
    def checkpoint_every(self) -> int:
        """Steps between checkpoints that no change needs. 0: the backend writes none, and a loss
        costs all steps since the last change that saved."""
        ...

    def problems(self, cluster: Cluster) -> list[str]:
        """Return what the backend needs of its surroundings or of the cluster and cannot find. Each
        line has the option, the fact and the way out.

        The call is made before a live run. It may wait a few seconds and starts nothing.
        """
        ...

    def warnings(self, cluster: Cluster) -> list[str]:
        """Return what users may expect and the backend does not promise on these slots. Each line
        has the option, the fact and the way out. The lines are shown before a live run, which
        starts all the same."""
        ...

    def bitwise(self, cluster: Cluster) -> bool:
        """Return whether the backend's jobs end with the bits of their ``reference``, whichever of
        these slots they are given."""
        ...

    def reference(self, cluster: Cluster) -> Reference:
        """Return the program whose bits the backend's jobs must equal on these slots. It trains on
        as many fixed workers as the job has logical workers; without logical workers, on as many as
        the job was started on.

        Raises:
            ValueError: no fixed training equals these jobs on any slots; the text says why, and the
                way out.
        """
        ...

    def open(self, cluster: Cluster, launcher: Launcher) -> None:
        """Prepare the backend; called once before any request."""
        ...

    def start(self, change: Change, order: TrainingOrder) -> None:
        """Start a job's workers from scratch on ``change.slots``."""
        ...

    def rescale(self, change: Change) -> None:
        """Continue the job on ``change.slots`` with ``change.global_batch``; also for MIGRATE."""
        ...

    def suspend(self, change: Change) -> None:
        """Write a checkpoint and stop every process of the job."""
        ...

    def resume(self, change: Change) -> None:
        """Start the job from its checkpoint on ``change.slots``."""
        ...

    def stop(self, change: Change) -> None:
        """End the job without finishing it."""
        ...

    def set_target_step(self, job_id: str, target_step: int) -> None:
        """Set the step at which the job finishes. A step that has passed means the next step
        boundary."""
        ...

    def poll(self, timeout_s: float) -> list[Report]:
        """Return the reports since the last call, in order; wait up to ``timeout_s`` for the first
        one."""
        ...

    def close(self) -> None:
        """End every process. Safe to call twice."""
        ...

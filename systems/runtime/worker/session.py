"""Preparation of a worker until it can train: import, build, load.

How workers join a job is elsewhere (``restart.join``, ``systems.elastic``). Every stage is timed on
``time.monotonic``, which all processes of one host share. The stages follow each other without a
gap.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from harness.cluster import is_cpu
from harness.configuration.named_classes import locate
from harness.contracts.workload import Workload
from harness.machine.malloc import keep_heap
from systems.runtime.data.loader import LoaderProcess
from systems.runtime.data.make_order import data_order
from systems.runtime.data.prefetch import Prefetcher
from systems.runtime.reduction.bucket_layouts import check_layout, described
from systems.runtime.reduction.ordered import OrderedReduction, Reduction
from systems.runtime.wire.data_order import DataOrder, DataState
from systems.runtime.wire.work_order import WorkOrder
from systems.runtime.worker import checkpoint
from systems.runtime.worker.adaptive_batch import BatchAdapter
from systems.runtime.worker.determinism import check_kernels, make_deterministic, use_common_kernels
from systems.runtime.worker.evidence import Recorder


class ProgramOrder(Protocol):
    """Fields of a worker's order from which its program is built."""

    @property
    def workload(self) -> str:
        """Import path of the workload: ``package.module.Class``."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the workload class."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the job."""
        ...

    @property
    def device(self) -> str:
        """``cpu``, ``cuda`` or ``auto``; auto means cuda if one exists and the slot is not a
        CPU."""
        ...

    @property
    def device_type(self) -> str:
        """Device type of the slot."""
        ...

    @property
    def num_threads(self) -> int:
        """Number of threads for the operators of one worker."""
        ...

    @property
    def common_kernels(self) -> bool:
        """True if operators must use kernels that all types of devices have."""
        ...

    @property
    def keeps_bits(self) -> bool:
        """True if the job must have the bits of its fixed number of virtual workers, whatever its
        slots."""
        ...


class Stopwatch:
    """Durations of the successive stages of a preparation."""

    def __init__(self, started: float) -> None:
        """Begin the first stage at ``started``, on ``time.monotonic``."""
        self.phases_s: dict[str, float] = {}
        self._at = started

    def done(self, phase: str) -> None:
        """End this stage and begin the next."""
        now = time.monotonic()
        self.phases_s[phase] = now - self._at
        self._at = now


class Carried(Protocol):
    """State that a user's script keeps over its steps (``systems.script.carried``)."""

    def values(self) -> list[Any]:
        """Return the state at this step boundary in a form that JSON can hold."""
        ...

    def adopt(self, values: Sequence[Any]) -> None:
        """Take the state that ``values`` returned. Raises ValueError: it is another script's."""
        ...

    def tensors(self) -> Mapping[str, torch.Tensor]:
        """Return the live tensors that are transferred together with the model's buffers."""
        ...


@dataclass(frozen=True, slots=True)
class Program:
    """Objects that a worker builds before it joins any other."""

    workload: Workload
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    device: torch.device
    reduction: OrderedReduction | None = None
    """Reduction that has been made and warmed up already, or None."""
    batches: frozenset[int] = frozenset()
    """Batch sizes that this reduction has been warmed up with."""
    carried: Carried | None = None
    """State that a script keeps over its steps; None: the program is not a script."""


class Contexts(Protocol):
    """State of the virtual workers (``systems.virtual.contexts``)."""

    def values(self) -> list[str]:
        """Return the state at this step boundary in a form that JSON can hold."""
        ...

    def adopt(self, values: Sequence[str]) -> None:
        """Take the state that ``values`` returned. Raises ValueError: it is another job's."""
        ...


@dataclass(slots=True)
class Session:
    """State of one worker's training."""

    workload: Workload
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    device: torch.device
    reduction: Reduction
    data: DataOrder
    prefetcher: Prefetcher
    seed: int
    job_dir: Path
    step: int
    """Number of steps executed so far."""
    data_state: DataState
    recorder: Recorder
    adapter: BatchAdapter | None = None
    """Adapter of the batch size, if the job adapts it."""
    contexts: Contexts | None = None
    """State of its virtual workers, if it has any."""
    carried: Carried | None = None
    """State that a script keeps over its steps, if the program is a script."""
    _adopted_layout: Mapping[str, Any] | None = None
    """Gradient bucket layout that belongs to the last adopted state."""

    def values(self) -> dict[str, Any]:
        """Return the state of the job apart from its tensors and its step number."""
        contexts = [] if self.contexts is None else self.contexts.values()
        adapted = {} if self.adapter is None else {"adapted": self.adapter.values()}
        carried = {} if self.carried is None else {"carried": self.carried.values()}
        layout = described(self.reduction.kept_layout)
        return {
            "data": self.data_state.to_json(),
            "contexts": contexts,
            "layout": layout,
            **adapted,
            **carried,
        }

    def adopt(self, values: Mapping[str, Any]) -> None:
        """Take the state that ``values`` returned. The caller must set this worker's share again
        afterwards.

        Raises:
            KeyError: a value is missing.
            ValueError: the state is another job's.
            LayoutError: the gradient buckets are another job's.
        """
        # Kept: if the buckets are not laid out yet, they are compared once they are.
        self._adopted_layout = values["layout"]
        self.check_layout()
        self.data_state = self.data.from_json(values["data"])
        if self.adapter is not None:
            self.adapter.adopt(values["adapted"])
        if self.carried is not None:
            self.carried.adopt(values["carried"])
        if self.contexts is not None:
            self.contexts.adopt(values["contexts"])
        elif values["contexts"]:
            raise ValueError(
                f"it is of a job with {len(values['contexts'])} virtual workers; go on with"
                " backend=virtual_thread"
            )

    def check_layout(self) -> None:
        """Compare the gradient buckets, once they are laid out, with those of the adopted state.

        Raises:
            LayoutError: they differ.
        """
        if self._adopted_layout is not None:
            check_layout(self._adopted_layout, self.reduction.kept_layout)

    def is_done(self, target_step: int) -> bool:
        """Return whether the job has reached its target step or, with an adapted batch, consumed
        its samples."""
        if self.adapter is not None and self.adapter.is_done(self.data_state.consumed):
            return True
        return self.step >= target_step


def import_workload(order: ProgramOrder) -> type:
    """Return the workload's class; import with it everything else that takes long to import."""
    found = locate(order.workload, "workload", "workload")
    # Making an optimizer imports a large part of torch, so make one now.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    return cast(type, found)


def build(order: ProgramOrder, workload_class: type) -> Program:
    """Build model and optimizer from scratch."""
    # All settings before the model is built: its first values depend on threads and kernels.
    check_kernels()
    # Otherwise glibc gives the end of the heap back, and takes it again, in every step.
    keep_heap()
    torch.set_num_threads(order.num_threads)
    device = choose_device(order.device, order.device_type)
    make_deterministic(device, order.num_threads, is_strict=order.keeps_bits)
    if order.common_kernels:
        use_common_kernels(device)
    workload = cast(Workload, workload_class(**order.options))
    model = workload.build_model(order.seed).to(device)
    return Program(workload, model, workload.build_optimizer(model), device)


def begin(order: WorkOrder, program: Program, reduction: Reduction) -> Session:
    """Return a session at step 0."""
    num_samples = program.workload.num_samples
    data = data_order(order.data_order, order.seed, num_samples, order.block_samples)
    loaders = [LoaderProcess(order.workload, order.options) for _ in range(order.loader_processes)]
    return Session(
        workload=program.workload,
        model=program.model,
        optimizer=program.optimizer,
        device=program.device,
        reduction=reduction,
        data=data,
        prefetcher=Prefetcher(program.workload, data, order.prefetch_steps, loaders),
        seed=order.seed,
        job_dir=Path(order.job_dir),
        step=0,
        data_state=data.initial(),
        adapter=BatchAdapter(order.adaptive) if order.adaptive is not None else None,
        carried=program.carried,
        recorder=Recorder(
            order.evidence,
            Path(order.job_dir),
            program.model,
            program.optimizer,
            program.device,
            data,
        ),
    )


def load(session: Session, manifest: str | None, *, verify: bool) -> None:
    """Restore a checkpoint, if there is one; ``verify`` as for ``checkpoint.load``.

    Raises:
        CheckpointError: the checkpoint cannot be used.
    """
    if manifest is None:
        return
    found = checkpoint.load(Path(manifest), session.model, session.optimizer, verify=verify)
    try:
        session.adopt(found.values)
    except (KeyError, ValueError) as error:
        raise checkpoint.CheckpointError(f"checkpoint {manifest}: {error}") from None
    session.step = found.step


def save(session: Session, folder: Path) -> Path:
    """Write a checkpoint into ``folder`` and return its manifest, as ``checkpoint.save`` does."""
    at = checkpoint.Checkpoint(session.step, session.values(), session.seed)
    return checkpoint.save(folder, at, session.model, session.optimizer)


def choose_device(device: str, device_type: str) -> torch.device:
    """Return the device for ``device`` (``auto``, ``cpu``, ``cuda``) on a slot of
    ``device_type``."""
    if device == "auto":
        on_cuda = not is_cpu(device_type) and torch.cuda.is_available()
        device = "cuda" if on_cuda else "cpu"
    if device == "cuda":
        torch.cuda.set_device(0)  # the only device that this process can see
    return torch.device(device)

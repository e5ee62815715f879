"""What a worker does with its order until it can train: import, build, load.

How workers join is another matter (``joining``, ``systems.elastic``). Every stage is timed on
``time.monotonic``, which all processes of one host share; the stages follow each other
without a gap.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from harness.cluster import is_cpu
from harness.contracts.evidence import Evidence
from harness.contracts.training import AdaptiveBatch, Workload
from harness.kept_heap import keep_heap
from harness.targets import locate
from systems.runtime import checkpoint
from systems.runtime.adaptive_batch import BatchAdapter
from systems.runtime.bucket_layouts import check_layout, described
from systems.runtime.data_order import DataOrder, DataState, data_order
from systems.runtime.determinism import check_kernels, make_deterministic, use_common_kernels
from systems.runtime.evidence import Recorder
from systems.runtime.loader import LoaderProcess
from systems.runtime.prefetch import Prefetcher
from systems.runtime.reduction import OrderedReduction, Reduction


class ProgramOrder(Protocol):
    """What a program is built from."""

    @property
    def workload(self) -> str:
        """``package.module.Class``."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Of the class."""
        ...

    @property
    def seed(self) -> int:
        """The job's."""
        ...

    @property
    def device(self) -> str:
        """``cpu``, ``cuda``, or ``auto``: cuda where there is one and the slot is not a CPU."""
        ...

    @property
    def device_type(self) -> str:
        """The slot's."""
        ...

    @property
    def num_threads(self) -> int:
        """For the operators of one worker."""
        ...

    @property
    def common_kernels(self) -> bool:
        """Whether operators are to have kernels that all types of devices have."""
        ...

    @property
    def keeps_bits(self) -> bool:
        """Whether the job is to have the bits of as many fixed workers, whatever its slots."""
        ...


class BuildOrder(ProgramOrder, Protocol):
    """What orders of all kinds of workers say about what is made of the program."""

    @property
    def job_dir(self) -> str:
        """Where the job's logs go."""
        ...

    @property
    def data_order(self) -> str:
        """``positions`` or ``blocks``."""
        ...

    @property
    def block_samples(self) -> int:
        """Samples of a block."""
        ...

    @property
    def prefetch_steps(self) -> int:
        """Steps whose samples are fetched in advance."""
        ...

    @property
    def loader_processes(self) -> int:
        """Processes that do so; 0: a thread."""
        ...

    @property
    def adaptive(self) -> Mapping[str, Any]:
        """How the batch is adapted: fields of ``contracts.training.AdaptiveBatch``, or none."""
        ...

    @property
    def evidence(self) -> Mapping[str, Any]:
        """Of which steps to keep evidence: the fields of ``contracts.evidence.Evidence``."""
        ...


class Stopwatch:
    """How long the stages of a preparation took, one after the other."""

    def __init__(self, started: float) -> None:
        """Args: when the first stage began, on ``time.monotonic``."""
        self.phases_s: dict[str, float] = {}
        self._at = started

    def done(self, phase: str) -> None:
        """This stage ends, the next begins."""
        now = time.monotonic()
        self.phases_s[phase] = now - self._at
        self._at = now


class Carried(Protocol):
    """What a user's script keeps over its steps (``systems.elastic.carried``)."""

    def values(self) -> list[Any]:
        """Return its state at this step boundary, as JSON can hold it."""
        ...

    def adopt(self, values: Sequence[Any]) -> None:
        """Take what ``values`` gave. Raises ValueError: another script's."""
        ...

    def tensors(self) -> Mapping[str, torch.Tensor]:
        """Return the tensors that travel with the model's buffers, live."""
        ...


@dataclass(frozen=True, slots=True)
class Program:
    """What a worker has built before it joins any other."""

    workload: Workload
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    device: torch.device
    reduction: OrderedReduction | None = None
    """Made, and warmed up, already."""
    batches: frozenset[int] = frozenset()
    """Sizes of the batches that it has seen then."""
    carried: Carried | None = None
    """What a script keeps over its steps; None: the program is no script."""


class Contexts(Protocol):
    """What virtual workers have of their own (``systems.virtual.contexts``)."""

    def values(self) -> list[str]:
        """At this step boundary, as JSON can hold it."""
        ...

    def adopt(self, values: Sequence[str]) -> None:
        """Take what ``values`` gave. Raises ValueError: it is another job's."""
        ...


@dataclass(slots=True)
class Session:
    """What one worker trains, and how far it has come."""

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
    """Steps executed so far."""
    data_state: DataState
    recorder: Recorder
    adapter: BatchAdapter | None = None
    """Of the batch, if the job adapts it."""
    contexts: Contexts | None = None
    """Of its virtual workers, if it has any."""
    carried: Carried | None = None
    """What a script keeps over its steps, if the program is one."""
    _adopted_layout: Mapping[str, Any] | None = None
    """Of the gradient buckets, with the state that was adopted last."""

    def values(self) -> dict[str, Any]:
        """What has to be known beside tensors and step to have the job's whole state."""
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
        """Take what ``values`` gave; the share of this worker has to be set anew then.

        Raises:
            KeyError: something is missing.
            ValueError: they are another job's.
            LayoutError: so are its gradient buckets.
        """
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
        """Once the gradient buckets are laid out: whether they are those of the adopted state.

        Raises:
            LayoutError: they are not.
        """
        if self._adopted_layout is not None:
            check_layout(self._adopted_layout, self.reduction.kept_layout)

    def is_done(self, target_step: int) -> bool:
        """Whether the job has made its steps or, where their size varies, consumed its samples."""
        if self.adapter is not None and self.adapter.is_done(self.data_state.consumed):
            return True
        return self.step >= target_step


def import_workload(order: ProgramOrder) -> type:
    """The workload's class, and with it everything else that takes long to import."""
    found = locate(order.workload, "workload", "workload")
    # Torch imports a good part of itself only when the first optimizer is made.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    return cast(type, found)


def build(order: ProgramOrder, workload_class: type) -> Program:
    """Model and optimizer, from scratch."""
    check_kernels()
    keep_heap()
    torch.set_num_threads(order.num_threads)
    device = choose_device(order.device, order.device_type)
    make_deterministic(device, order.num_threads, is_strict=order.keeps_bits)
    if order.common_kernels:
        use_common_kernels(device)
    workload = cast(Workload, workload_class(**order.options))
    model = workload.build_model(order.seed).to(device)
    return Program(workload, model, workload.build_optimizer(model), device)


def begin(order: BuildOrder, program: Program, reduction: Reduction) -> Session:
    """A session at its very beginning."""
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
        adapter=BatchAdapter(AdaptiveBatch(**order.adaptive)) if order.adaptive else None,
        carried=program.carried,
        recorder=Recorder(
            Evidence(**order.evidence),
            Path(order.job_dir),
            program.model,
            program.optimizer,
            program.device,
            data,
        ),
    )


def load(session: Session, manifest: str | None, *, verify: bool) -> None:
    """Go on from a checkpoint, if there is one; ``verify`` as for ``checkpoint.load``.

    Raises:
        CheckpointError: it cannot be used.
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
    """Write a checkpoint into ``folder`` and return its manifest, as ``checkpoint.save``."""
    at = checkpoint.Checkpoint(session.step, session.values(), session.seed)
    return checkpoint.save(folder, at, session.model, session.optimizer)


def choose_device(device: str, device_type: str) -> torch.device:
    """The device for ``device`` (``auto``, ``cpu``, ``cuda``) on a slot of ``device_type``."""
    if device == "auto":
        on_cuda = not is_cpu(device_type) and torch.cuda.is_available()
        device = "cuda" if on_cuda else "cpu"
    if device == "cuda":
        torch.cuda.set_device(0)  # the only one this process can see
    return torch.device(device)

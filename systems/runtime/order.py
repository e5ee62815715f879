"""What a driver tells each worker of a generation. Torch-free; both sides use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from systems.runtime.control import Message


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """A worker's part in one generation: the workers that train a job between two restarts."""

    job_id: str
    generation: int
    rank: int
    num_workers: int
    num_slots: int
    """Slots of the job, each of which may have several workers."""
    workload: str
    """``package.module.Class``."""
    options: Mapping[str, Any]
    seed: int
    global_batch: int
    target_step: int
    job_dir: str
    checkpoint: str | None
    """Manifest to start from; None: from scratch."""
    checkpoint_every: int
    digest_every: int
    step_floor_s: float
    device: str
    """``cpu``, ``cuda``, or ``auto``: cuda where there is one and the slot is not a CPU."""
    device_type: str
    own_device: bool
    """Whether every worker has a device of its own, as NCCL needs."""
    num_threads: int
    address: str
    """Address of this worker's host, on which the first one's store listens."""
    collective_timeout_s: float
    replay_layout: bool
    """Rebuild the gradient buckets before the first step after a restart."""
    reduction: str = "ddp"
    """``ddp`` or ``ordered``: see ``RuntimeOptions``."""
    data_order: str = "positions"
    """``positions`` or ``blocks``."""
    block_samples: int = 64
    """Samples of a block."""
    prefetch_steps: int = 0
    """Steps whose samples are fetched in advance."""
    loader_processes: int = 0
    """Processes that do so; 0: a thread."""
    drawn_samples: bool = False
    """Whether samples come out of random states: see ``RuntimeOptions``."""
    logical_workers: int = 0
    """Virtual workers of the job; 0: every worker is one of its own."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Of which steps to keep evidence: fields of ``contracts.evidence.Evidence``."""
    evaluate_epochs: float = 0.0
    """Epochs from one evaluation to the next; 0: only at the end."""
    adaptive: Mapping[str, Any] = field(default_factory=dict)
    """How the batch is adapted: fields of ``contracts.training.AdaptiveBatch``; empty: not."""
    accumulation_steps: int = 1
    """Micro-batches of each virtual worker in a step."""
    random_states: str = "per_step"
    """``streams`` or ``per_step``: see ``RuntimeOptions``."""
    virtual_workers: tuple[int, ...] = ()
    """Of each rank, where a plan gives them."""
    store_address: str = ""
    store_port: int = 0
    """Where the first worker's store listens; 0: on a free port of its host's address."""
    common_kernels: bool = False
    """Whether operators are to have kernels that all types of devices have."""
    carries_ranks: bool = True
    """See ``RuntimeOptions``, of virtual workers."""
    mark: str | None = None
    """File of this worker's mark; None: it keeps none."""

    @property
    def keeps_bits(self) -> bool:
        """Whether the job is to have the bits of as many fixed workers, whatever its slots."""
        return self.logical_workers > 0 and self.carries_ranks

    def message(self) -> Message:
        """This order as a control message."""
        return {"kind": "order", **asdict(self)}

    @classmethod
    def from_message(cls, message: Message) -> WorkerOrder:
        """The order in a control message."""
        fields = {key: value for key, value in message.items() if key != "kind"}
        return cls(**{**fields, "virtual_workers": tuple(fields["virtual_workers"])})

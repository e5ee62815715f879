"""The driver's order to each worker of a generation. Both sides use the module, so it does not
import torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from systems.runtime.wire.control import Message


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """A worker's part in one generation: the workers that train a job between two restarts."""

    job_id: str
    generation: int
    rank: int
    num_workers: int
    num_slots: int
    """Number of slots of the job; each may have several workers."""
    workload: str
    """Import path of the workload: ``package.module.Class``."""
    options: Mapping[str, Any]
    seed: int
    global_batch: int
    target_step: int
    job_dir: str
    checkpoint: str | None
    """Manifest of the checkpoint to start from; None: from scratch."""
    checkpoint_every: int
    digest_every: int
    step_floor_s: float
    device: str
    """``cpu``, ``cuda`` or ``auto``; auto means cuda if one exists and the slot is not a CPU."""
    device_type: str
    own_device: bool
    """True if every worker has its own device, as NCCL requires."""
    num_threads: int
    address: str
    """Address of this worker's host, on which the first worker's store listens."""
    collective_timeout_s: float
    replay_layout: bool
    """True if the gradient buckets must be rebuilt before the first step after a restart."""
    reduction: str = "ddp"
    """``ddp`` or ``ordered``: see ``RuntimeOptions``."""
    data_order: str = "positions"
    """``positions`` or ``blocks``."""
    block_samples: int = 64
    """Number of samples in a block."""
    prefetch_steps: int = 0
    """Number of steps whose samples are fetched in advance."""
    loader_processes: int = 0
    """Number of processes that fetch samples; 0: a thread does."""
    drawn_samples: bool = False
    """True if samples depend on random states: see ``RuntimeOptions``."""
    logical_workers: int = 0
    """Number of virtual workers of the job; 0: it has none."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``contracts.evidence.Evidence``: the steps whose evidence is kept."""
    evaluate_epochs: float = 0.0
    """Number of epochs between two evaluations; 0: only at the end."""
    adaptive: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``contracts.training_order.AdaptiveBatch``; empty if the batch is not adapted."""
    accumulation_steps: int = 1
    """Number of micro-batches of each virtual worker in a step."""
    random_states: str = "per_step"
    """``streams`` or ``per_step``: see ``RuntimeOptions``."""
    virtual_workers: tuple[int, ...] = ()
    """Number of virtual workers of each rank; empty if no plan gives it."""
    store_address: str = ""
    store_port: int = 0
    """Port of the first worker's store; 0: a free port of its host's address."""
    common_kernels: bool = False
    """True if operators must use kernels that all types of devices have."""
    carries_ranks: bool = True
    """True if ranks of virtual workers survive a restart: see ``RuntimeOptions``."""
    mark: str | None = None
    """File of this worker's mark; None: it keeps no mark."""

    @property
    def keeps_bits(self) -> bool:
        """True if the job must have the bits of its fixed number of virtual workers, whatever its
        slots."""
        return self.logical_workers > 0 and self.carries_ranks

    def message(self) -> Message:
        """Return this order as a control message."""
        return {"kind": "order", **asdict(self)}

    @classmethod
    def from_message(cls, message: Message) -> WorkerOrder:
        """Return the order in a control message."""
        fields = {key: value for key, value in message.items() if key != "kind"}
        return cls(**{**fields, "virtual_workers": tuple(fields["virtual_workers"])})

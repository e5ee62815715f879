"""The driver's order to each worker of a generation. Both sides use the module, so it does not
import torch."""

from __future__ import annotations

from msgspec import field

from systems.runtime.wire.messages import DRIVER_TO_PROCESS, DRIVER_TO_WORKER
from systems.runtime.wire.protocol import Count, Inbound, JsonObject, Message, Port, Seconds


class WorkerOrder(Message, frozen=True, kw_only=True, tag="worker_order"):
    """Driver to worker, after its greeting: its part in one generation.

    A generation is the workers that train a job between two restarts.
    """

    job_id: str
    generation: Count
    rank: Count
    num_workers: Count
    num_slots: Count
    """Number of slots of the job; each may have several workers."""
    workload: str
    """Import path of the workload: ``package.module.Class``."""
    options: JsonObject
    """Options of the workload class."""
    seed: int
    global_batch: Count
    target_step: Count
    job_dir: str
    checkpoint: str | None
    """Manifest of the checkpoint to start from; None: from scratch."""
    checkpoint_every: Count
    digest_every: Count
    step_floor_s: Seconds
    device: str
    """``cpu``, ``cuda`` or ``auto``; auto means cuda if one exists and the slot is not a CPU."""
    device_type: str
    own_device: bool
    """True if every worker has its own device, as NCCL requires."""
    num_threads: Count
    address: str
    """Address of this worker's host, on which the first worker's store listens."""
    collective_timeout_s: Seconds
    replay_layout: bool
    """True if the gradient buckets must be rebuilt before the first step after a restart."""
    reduction: str = "ddp"
    """``ddp`` or ``ordered``: see ``RuntimeOptions``."""
    data_order: str = "positions"
    """``positions`` or ``blocks``."""
    block_samples: Count = 64
    """Number of samples in a block."""
    prefetch_steps: Count = 0
    """Number of steps whose samples are fetched in advance."""
    loader_processes: Count = 0
    """Number of processes that fetch samples; 0: a thread does."""
    drawn_samples: bool = False
    """True if samples depend on random states: see ``RuntimeOptions``."""
    logical_workers: Count = 0
    """Number of virtual workers of the job; 0: it has none."""
    evidence: dict[str, int | bool] = field(default_factory=dict)
    """Steps whose evidence is kept: fields of ``contracts.evidence.Evidence``."""
    evaluate_epochs: float = 0.0
    """Number of epochs between two evaluations; 0: only at the end."""
    adaptive: dict[str, int | float] = field(default_factory=dict)
    """Fields of ``contracts.training_order.AdaptiveBatch``; empty if the batch is not adapted."""
    accumulation_steps: Count = 1
    """Number of micro-batches of each virtual worker in a step."""
    random_states: str = "per_step"
    """``streams`` or ``per_step``: see ``RuntimeOptions``."""
    virtual_workers: tuple[Count, ...] = ()
    """Number of virtual workers of each rank; empty if no plan gives it."""
    store_address: str = ""
    store_port: Port = 0
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


TO_WORKER = Inbound(WorkerOrder, *DRIVER_TO_PROCESS, *DRIVER_TO_WORKER)
"""Messages that a worker accepts from the driver."""

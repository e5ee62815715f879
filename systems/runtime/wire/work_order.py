"""Part of a driver's order to a worker that all kinds of jobs share. It does not import torch."""

from __future__ import annotations

from msgspec import field

from harness.contracts.evidence import Evidence
from harness.contracts.training_order import AdaptiveBatch
from systems.runtime.wire.protocol import Count, JsonObject, Message, Seconds


class WorkOrder(Message, frozen=True, kw_only=True):
    """Base of the orders to workers: the program, how it is trained, and on what."""

    job_id: str
    workload: str
    """Import path of the workload: ``package.module.Class``."""
    options: JsonObject
    """Options of the workload class."""
    seed: int
    global_batch: Count
    target_step: Count
    job_dir: str
    """Folder of the job's logs."""
    checkpoint: str | None
    """Manifest of the checkpoint to start from; None: from scratch, or from other workers."""
    checkpoint_every: Count
    digest_every: Count
    device: str
    """``cpu``, ``cuda`` or ``auto``; auto means cuda if one exists and the slot is not a CPU."""
    device_type: str
    """Device type of the slot."""
    num_threads: Count
    """Number of threads for the operators of one worker."""
    address: str
    """Address of this worker's host, on which all its servers listen."""
    collective_timeout_s: Seconds
    step_floors_s: dict[str, Seconds] = field(default_factory=dict)
    """Least duration of a step, by number of slots, which JSON makes a text; empty: not paced."""
    evaluate_epochs: float = 0.0
    """Number of epochs between two evaluations; 0: only at the end."""
    evidence: Evidence = field(default_factory=Evidence)
    """Steps whose evidence is kept."""
    adaptive: AdaptiveBatch | None = None
    """Parameters of the adaptive batch; None: the batch is not adapted."""
    mark: str | None = None
    """File of this worker's mark; None: it keeps no mark."""
    common_kernels: bool = False
    """True if operators must use kernels that all types of devices have."""
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
    virtual_workers: tuple[Count, ...] = ()
    """Number of virtual workers of each rank; empty if no plan gives it."""
    accumulation_steps: Count = 1
    """Number of micro-batches of each virtual worker in a step."""
    random_states: str = "per_step"
    """``streams`` or ``per_step``: see ``RuntimeOptions``."""

    @property
    def keeps_bits(self) -> bool:
        """True if the job must have the bits of its fixed number of virtual workers, whatever its
        slots."""
        return self.logical_workers > 0

    def floor_s(self, num_slots: int) -> float:
        """Return the least duration of a step on this many slots; 0: none."""
        return self.step_floors_s.get(str(num_slots), 0.0)

"""The driver's order to each worker of a generation. Both sides use the module, so it does not
import torch."""

from __future__ import annotations

from systems.runtime.wire.messages import DRIVER_TO_PROCESS, DRIVER_TO_WORKER
from systems.runtime.wire.protocol import Count, Inbound, Port
from systems.runtime.wire.work_order import WorkOrder


class WorkerOrder(WorkOrder, frozen=True, kw_only=True, tag="worker_order"):
    """Driver to worker, after its greeting: its part in one generation.

    A generation is the workers that train a job between two restarts.
    """

    generation: Count
    rank: Count
    num_workers: Count
    num_slots: Count
    """Number of slots of the job; each may have several workers."""
    own_device: bool
    """True if every worker has its own device, as NCCL requires."""
    replay_layout: bool
    """True if the gradient buckets must be rebuilt before the first step after a restart."""
    reduction: str = "ddp"
    """``ddp`` or ``ordered``: see ``RuntimeOptions``."""
    store_address: str = ""
    store_port: Port = 0
    """Port of the first worker's store; 0: a free port of its host's address."""
    carries_ranks: bool = True
    """True if ranks of virtual workers survive a restart: see ``RuntimeOptions``."""

    @property
    def keeps_bits(self) -> bool:
        """True if the job must have the bits of its fixed number of virtual workers, whatever its
        slots."""
        return self.logical_workers > 0 and self.carries_ranks


TO_WORKER = Inbound(WorkerOrder, *DRIVER_TO_PROCESS, *DRIVER_TO_WORKER)
"""Messages that a worker accepts from the driver."""

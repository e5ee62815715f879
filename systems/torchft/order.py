"""The driver's orders to the processes of a job. Both sides use the module, so it does not import
torch."""

from __future__ import annotations

from msgspec import field

from systems.runtime.wire.protocol import Count, JsonObject, Message, Seconds


class ReplicaOrder(Message, frozen=True, kw_only=True, tag="replica_order"):
    """Driver to replica, after its greeting: its part in a job, from its start to its end."""

    job_id: str
    number: Count
    """Number of the replica among those since the job's last start or resumption, from 0."""
    founders: tuple[Count, ...]
    """Numbers of the replicas that start together; empty for a replica that joins a job."""
    base_generation: Count
    """Largest generation in the job's logs before the job's last start or resumption."""
    workload: str
    """Import path of the workload: ``package.module.Class``."""
    options: JsonObject
    """Options of the workload class."""
    seed: int
    global_batch: Count
    target_step: Count
    job_dir: str
    checkpoint: str | None
    """Manifest of the checkpoint to start from; None: from scratch, or from another replica."""
    checkpoint_every: Count
    digest_every: Count
    evaluate_epochs: float
    step_floors_s: dict[str, Seconds]
    """Least duration of a step, by number of replicas, which JSON makes a text."""
    device: str
    device_type: str
    num_threads: Count
    address: str
    """Address of this replica's host, on which all its servers listen."""
    heartbeat_interval_s: Seconds
    quorum_timeout_s: Seconds
    collective_timeout_s: Seconds
    min_replicas: Count
    drop_failed_group: bool
    data_order: str
    block_samples: Count
    evidence: dict[str, int | bool] = field(default_factory=dict)
    mark: str | None = None
    prefetch_steps: Count = 0
    loader_processes: Count = 0
    adaptive: dict[str, int | float] = field(default_factory=dict)
    common_kernels: bool = False

    @property
    def keeps_bits(self) -> bool:
        """False: no job of torchft has the bits of a training on fixed workers."""
        return False

    def floor_s(self, num_workers: int) -> float:
        """Return the least duration of a step of this many replicas; 0: none."""
        return self.step_floors_s.get(str(num_workers), 0.0)


class LighthouseOrder(Message, frozen=True, kw_only=True, tag="lighthouse_order"):
    """Driver to lighthouse, after its greeting: its settings."""

    address: str
    min_replicas: Count
    join_timeout_s: Seconds
    quorum_tick_s: Seconds
    heartbeat_timeout_s: Seconds


class Target(Message, frozen=True, kw_only=True, tag="target"):
    """Driver to replica: the membership that the driver wants.

    Replicas obey a target after a step in which all hear of it.
    """

    number: Count
    """Targets of a job count from 1; a later one replaces an earlier one."""
    members: tuple[Count, ...]
    """Numbers of the replicas."""
    global_batch: Count
    """Batch of the first step in which exactly these replicas train, and of all later steps."""
    leaving: tuple[Count, ...] = ()
    """Numbers of the replicas that leave when the target becomes known."""

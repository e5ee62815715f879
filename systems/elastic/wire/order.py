"""Order that a driver sends to each worker of an elastic job. Torch-free; both sides import it."""

from __future__ import annotations

from msgspec import field

from systems.elastic.wire.recovery_plan import Membership
from systems.runtime.wire.protocol import Count, JsonObject, Message, Port, Seconds

SCRIPT = "script"
"""Workload name of a job whose program is a user's script.

The options have its ``path`` and ``arguments``. The global batch is then the script's own, whatever
orders say.
"""


class ElasticOrder(Message, frozen=True, kw_only=True, tag="elastic_order"):
    """Driver to worker, once the store listens: its part in an elastic job.

    The order has no ranks, which change as workers come and go. The worker's rank is its index in
    the members of the present generation.
    """

    job_id: str
    worker: str
    """Worker's name: ``w`` and a number that is unique in the job."""
    joining: bool
    """Whether the worker joins a job that trains already; else it is a founder."""
    members: tuple[str, ...]
    """Founders in rank order; empty for a joiner, which the leader tells the members."""
    generation: Count
    """Number of the founders' generation; 0 for a joiner."""
    workload: str
    """Workload class, ``package.module.Class``, or ``SCRIPT``."""
    options: JsonObject
    """Options of the workload class, or the script's path and arguments."""
    seed: int
    global_batch: Count
    target_step: Count
    job_dir: str
    checkpoint: str | None
    """Manifest of the checkpoint to start from; None: from scratch, or from the other workers."""
    checkpoint_every: Count
    digest_every: Count
    step_floors_s: dict[str, Seconds]
    """Paced mode: least seconds of a step, by number of workers as a text (a key of JSON)."""
    device: str
    """``cpu``, ``cuda``, or ``auto``: cuda where there is one and the slot is not a CPU."""
    device_type: str
    collectives: str
    """``gloo`` or ``nccl``: backend that sums gradients on devices."""
    num_threads: Count
    address: str
    """Address of this worker's host, on which the worker listens."""
    store_address: str
    store_port: Port
    data_order: str
    block_samples: Count
    transfer: str
    """``background``, ``peer`` or ``broadcast``: how joiners get the state."""
    recovery: str
    """``none``, ``consistent``, ``approximate`` or ``exact``: what follows a worker's death."""
    heartbeat_s: Seconds
    hang_timeout_s: Seconds
    leader_expiry_s: Seconds
    leader_refresh_s: Seconds
    switch_allowance_s: Seconds
    """Least time between the leader's announcement and the switch (EDL's T_a, section 4.2)."""
    collective_timeout_s: Seconds
    recovery_timeout_s: Seconds
    """Longest time from a worker's death until the survivors go on."""
    straggler: str = "off"
    """``off`` or ``remove``: what is done about stragglers."""
    straggler_ratio: float = 1.2
    straggler_window: Count = 10
    stops_first: bool = False
    """Whether all stop before a change is prepared, as in a restart (``warm_restart``)."""
    num_workers: Count = 1
    """Number of workers that the job will have when this one trains; the warm-up is for it."""
    prefetch_steps: Count = 0
    """Number of steps whose samples are fetched in advance."""
    loader_processes: Count = 0
    """Number of processes that fetch samples in advance; 0: a thread does."""
    drawn_samples: bool = False
    """Whether samples come out of random states: see ``RuntimeOptions``."""
    common_kernels: bool = False
    """Whether operators must use kernels that all types of devices have."""
    mark: str | None = None
    """File of this worker's mark; None: it keeps none."""
    logical_workers: Count = 0
    """Number of the job's virtual workers; 0: each worker is its own virtual worker."""
    evidence: dict[str, int | bool] = field(default_factory=dict)
    """Steps whose evidence is kept: fields of ``contracts.evidence.Evidence``."""
    evaluate_epochs: float = 0.0
    """Epochs from one evaluation to the next; 0: only at the end."""
    adaptive: dict[str, int | float] = field(default_factory=dict)
    """Fields of ``contracts.training_order.AdaptiveBatch``; empty if the batch is not adapted."""
    accumulation_steps: Count = 1
    """Number of micro-batches of each virtual worker in a step."""
    random_states: str = "per_step"
    """``streams`` or ``per_step``: see ``RuntimeOptions``."""
    virtual_workers: tuple[Count, ...] = ()
    """Virtual workers of each founder; empty if no plan gives them."""
    etcd_endpoints: tuple[str, ...] = ()
    """Addresses of the etcd for the leader election; empty: the job's own store holds it."""
    etcd_prefix: str = ""
    """Prefix of this job's keys in that etcd."""

    @property
    def membership(self) -> Membership:
        """Membership of the founders' generation."""
        return Membership(self.members, self.global_batch, self.virtual_workers)

    @property
    def keeps_bits(self) -> bool:
        """Whether the job has the bits of as many fixed workers, whatever its slots."""
        return self.logical_workers > 0

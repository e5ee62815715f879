"""Order that a driver sends to each worker of an elastic job. Torch-free; both sides import it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from systems.elastic.wire.recovery_plan import Membership
from systems.runtime.wire.control import Message

SCRIPT = "script"
"""Workload name of a job whose program is a user's script.

The options have its ``path`` and ``arguments``. The global batch is then the script's own, whatever
orders say.
"""


@dataclass(frozen=True, slots=True)
class ElasticOrder:
    """A worker's part in an elastic job, without ranks, which change as workers come and go.

    The worker's rank is its index in the members of the present generation.
    """

    job_id: str
    worker: str
    """Worker's name: ``w`` and a number that is unique in the job."""
    joining: bool
    """Whether the worker joins a job that trains already; else it is a founder."""
    members: tuple[str, ...]
    """Founders in rank order; empty for a joiner, which the leader tells the members."""
    generation: int
    """Number of the founders' generation; 0 for a joiner."""
    workload: str
    """Workload class, ``package.module.Class``, or ``SCRIPT``."""
    options: Mapping[str, Any]
    seed: int
    global_batch: int
    target_step: int
    job_dir: str
    checkpoint: str | None
    """Manifest of the checkpoint to start from; None: from scratch, or from the other workers."""
    checkpoint_every: int
    digest_every: int
    step_floors_s: Mapping[str, float]
    """Paced mode: least seconds of a step, by number of workers as a text (a key of JSON)."""
    device: str
    """``cpu``, ``cuda``, or ``auto``: cuda where there is one and the slot is not a CPU."""
    device_type: str
    collectives: str
    """``gloo`` or ``nccl``: backend that sums gradients on devices."""
    num_threads: int
    address: str
    """Address of this worker's host, on which the worker listens."""
    store_address: str
    store_port: int
    data_order: str
    block_samples: int
    transfer: str
    """``background``, ``peer`` or ``broadcast``: how joiners get the state."""
    recovery: str
    """``none``, ``consistent``, ``approximate`` or ``exact``: what follows a worker's death."""
    heartbeat_s: float
    hang_timeout_s: float
    leader_expiry_s: float
    leader_refresh_s: float
    switch_allowance_s: float
    """Least time between the leader's announcement and the switch (EDL's T_a, section 4.2)."""
    collective_timeout_s: float
    recovery_timeout_s: float
    """Longest time from a worker's death until the survivors go on."""
    straggler: str = "off"
    """``off`` or ``remove``: what is done about stragglers."""
    straggler_ratio: float = 1.2
    straggler_window: int = 10
    stops_first: bool = False
    """Whether all stop before a change is prepared, as in a restart (``warm_restart``)."""
    num_workers: int = 1
    """Number of workers that the job will have when this one trains; the warm-up is for it."""
    prefetch_steps: int = 0
    """Number of steps whose samples are fetched in advance."""
    loader_processes: int = 0
    """Number of processes that fetch samples in advance; 0: a thread does."""
    drawn_samples: bool = False
    """Whether samples come out of random states: see ``RuntimeOptions``."""
    common_kernels: bool = False
    """Whether operators must use kernels that all types of devices have."""
    mark: str | None = None
    """File of this worker's mark; None: it keeps none."""
    logical_workers: int = 0
    """Number of the job's virtual workers; 0: each worker is its own virtual worker."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Steps of which evidence is kept: fields of ``contracts.evidence.Evidence``."""
    evaluate_epochs: float = 0.0
    """Epochs from one evaluation to the next; 0: only at the end."""
    adaptive: Mapping[str, Any] = field(default_factory=dict)
    """Adaptation of the batch: fields of ``AdaptiveBatch``; empty: none."""
    accumulation_steps: int = 1
    """Number of micro-batches of each virtual worker in a step."""
    random_states: str = "per_step"
    """``streams`` or ``per_step``: see ``RuntimeOptions``."""
    virtual_workers: tuple[int, ...] = ()
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

    def message(self) -> Message:
        """Return this order as a control message."""
        return {"kind": "order", **asdict(self)}

    @classmethod
    def from_message(cls, message: Message) -> ElasticOrder:
        """Return the order in a control message."""
        fields = {key: value for key, value in message.items() if key != "kind"}
        lists = {
            name: tuple(fields[name]) for name in ("members", "etcd_endpoints", "virtual_workers")
        }
        return cls(**{**fields, **lists})

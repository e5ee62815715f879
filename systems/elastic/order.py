"""What a driver tells each worker of an elastic job. Torch-free; both sides use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from systems.elastic.recovery import Membership
from systems.runtime.control import Message

SCRIPT = "script"
"""In place of a workload: the worker runs a script of the user's, the options' ``path`` with
``arguments``. The global batch is then the script's own, whatever orders say."""


@dataclass(frozen=True, slots=True)
class ElasticOrder:
    """A worker's part in an elastic job. Ranks are not in it: they change as workers come and go.

    The worker's rank is its index in the members of the present generation.
    """

    job_id: str
    worker: str
    """``w`` and a number that counts the workers of a job."""
    joining: bool
    """Whether the job trains already and this worker joins it; else it is a founder."""
    members: tuple[str, ...]
    """The founders in rank order; empty for a joiner, whom the leader tells."""
    generation: int
    """Number of the founders' generation; 0 for a joiner."""
    workload: str
    """``package.module.Class``."""
    options: Mapping[str, Any]
    seed: int
    global_batch: int
    target_step: int
    job_dir: str
    checkpoint: str | None
    """Manifest to start from; None: from scratch, or from the other workers."""
    checkpoint_every: int
    digest_every: int
    step_floors_s: Mapping[str, float]
    """Paced mode: least seconds of a step by number of workers (a key of JSON is a text)."""
    device: str
    """``cpu``, ``cuda``, or ``auto``: cuda where there is one and the slot is not a CPU."""
    device_type: str
    collectives: str
    """``gloo`` or ``nccl``: how gradients on devices are added up."""
    num_threads: int
    address: str
    """Address of this worker's host, on which it listens."""
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
    """Least time between the leader's word and the switch (T_a of the EDL paper, section 4.2)."""
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
    """Workers there will be when this one trains: what it warms up for."""
    prefetch_steps: int = 0
    """Steps whose samples are fetched in advance."""
    loader_processes: int = 0
    """Processes that do so; 0: a thread."""
    drawn_samples: bool = False
    """Whether samples come out of random states: see ``RuntimeOptions``."""
    common_kernels: bool = False
    """Whether operators are to have kernels that all types of devices have."""
    mark: str | None = None
    """File of this worker's mark; None: it keeps none."""
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
    """Of each founder, where a plan gives them."""
    etcd_endpoints: tuple[str, ...] = ()
    """Where the etcd of the election listens; empty: it is held in the job's own store."""
    etcd_prefix: str = ""
    """Of this job's keys there."""

    @property
    def membership(self) -> Membership:
        """The founders'."""
        return Membership(self.members, self.global_batch, self.virtual_workers)

    @property
    def keeps_bits(self) -> bool:
        """Whether the job is to have the bits of as many fixed workers, whatever its slots."""
        return self.logical_workers > 0

    def message(self) -> Message:
        """This order as a control message."""
        return {"kind": "order", **asdict(self)}

    @classmethod
    def from_message(cls, message: Message) -> ElasticOrder:
        """The order in a control message."""
        fields = {key: value for key, value in message.items() if key != "kind"}
        lists = {
            name: tuple(fields[name]) for name in ("members", "etcd_endpoints", "virtual_workers")
        }
        return cls(**{**fields, **lists})

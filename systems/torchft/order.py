"""The driver's order to each replica of a job. Both sides use the module, so it does not import
torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from systems.runtime.wire.control import Message


@dataclass(frozen=True, slots=True)
class ReplicaOrder:
    """A replica's part in a job, from its start to its end."""

    job_id: str
    number: int
    """Number of the replica among those since the job's last start or resumption, from 0."""
    founders: tuple[int, ...]
    """Numbers of the replicas that start together; empty for a replica that joins a job."""
    base_generation: int
    """Largest generation in the job's logs before the job's last start or resumption."""
    workload: str
    """Import path of the workload: ``package.module.Class``."""
    options: Mapping[str, Any]
    seed: int
    global_batch: int
    target_step: int
    job_dir: str
    checkpoint: str | None
    """Manifest of the checkpoint to start from; None: from scratch, or from another replica."""
    checkpoint_every: int
    digest_every: int
    evaluate_epochs: float
    step_floor_s: Mapping[str, float]
    """Least duration of a step, by number of replicas, which JSON makes a text."""
    device: str
    device_type: str
    num_threads: int
    address: str
    """Address of this replica's host, on which all its servers listen."""
    heartbeat_interval_s: float
    quorum_timeout_s: float
    collective_timeout_s: float
    min_replicas: int
    drop_failed_group: bool
    data_order: str
    block_samples: int
    evidence: Mapping[str, Any] = field(default_factory=dict)
    mark: str | None = None
    prefetch_steps: int = 0
    loader_processes: int = 0
    adaptive: Mapping[str, Any] = field(default_factory=dict)
    common_kernels: bool = False

    @property
    def keeps_bits(self) -> bool:
        """False: no job of torchft has the bits of a training on fixed workers."""
        return False

    def floor_s(self, num_workers: int) -> float:
        """Return the least duration of a step of this many replicas; 0: none."""
        return self.step_floor_s.get(str(num_workers), 0.0)

    def message(self) -> Message:
        """Return this order as a control message."""
        return {"kind": "order", **asdict(self)}

    @classmethod
    def from_message(cls, message: Message) -> ReplicaOrder:
        """Return the order in a control message."""
        fields = {key: value for key, value in message.items() if key != "kind"}
        return cls(**{**fields, "founders": tuple(fields["founders"])})


@dataclass(frozen=True, slots=True)
class LighthouseOrder:
    """Settings of a job's lighthouse."""

    address: str
    min_replicas: int
    join_timeout_s: float
    quorum_tick_s: float
    heartbeat_timeout_s: float

    def message(self) -> Message:
        """Return this order as a control message."""
        return {"kind": "order", **asdict(self)}

    @classmethod
    def from_message(cls, message: Message) -> LighthouseOrder:
        """Return the order in a control message."""
        return cls(**{key: value for key, value in message.items() if key != "kind"})


@dataclass(frozen=True, slots=True)
class Target:
    """Membership that the driver wants. Replicas obey one after a step in which all hear of it."""

    number: int
    """Targets of a job count from 1; a later one replaces an earlier one."""
    members: tuple[int, ...]
    """Numbers of the replicas."""
    global_batch: int
    """Batch of the first step in which exactly these replicas train, and of all later steps."""
    leaving: tuple[int, ...] = ()
    """Numbers of the replicas that leave when the target becomes known."""

    def message(self) -> Message:
        """Return this target as a control message."""
        return {"kind": "target", **asdict(self)}

    @classmethod
    def from_message(cls, message: Message) -> Target:
        """Return the target in a control message."""
        members, leaving = tuple(message["members"]), tuple(message["leaving"])
        return cls(message["number"], members, message["global_batch"], leaving)

"""The driver's orders to the processes of a job. Both sides use the module, so it does not import
torch."""

from __future__ import annotations

from systems.runtime.wire.protocol import Count, Message, Seconds
from systems.runtime.wire.work_order import WorkOrder


class ReplicaOrder(WorkOrder, frozen=True, kw_only=True, tag="replica_order"):
    """Driver to replica, after its greeting: its part in a job, from its start to its end."""

    number: Count
    """Number of the replica among those since the job's last start or resumption, from 0."""
    founders: tuple[Count, ...]
    """Numbers of the replicas that start together; empty for a replica that joins a job."""
    base_generation: Count
    """Largest generation in the job's logs before the job's last start or resumption."""
    heartbeat_interval_s: Seconds
    quorum_timeout_s: Seconds
    min_replicas: Count
    drop_failed_group: bool


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

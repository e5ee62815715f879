"""Order that a driver sends to each worker of an elastic job. Torch-free; both sides import it."""

from __future__ import annotations

from systems.elastic.wire.recovery_plan import Membership
from systems.runtime.wire.protocol import Count, Port, Seconds
from systems.runtime.wire.work_order import WorkOrder

SCRIPT = "script"
"""Workload name of a job whose program is a user's script.

The options have its ``path`` and ``arguments``. The global batch is then the script's own, whatever
orders say.
"""


class ElasticOrder(WorkOrder, frozen=True, kw_only=True, tag="elastic_order"):
    """Driver to worker, once the store listens: its part in an elastic job.

    The order has no ranks, which change as workers come and go. The worker's rank is its index in
    the members of the present generation. Its ``workload`` may also be ``SCRIPT``.
    """

    worker: str
    """Worker's name: ``w`` and a number that is unique in the job."""
    joining: bool
    """Whether the worker joins a job that trains already; else it is a founder."""
    members: tuple[str, ...]
    """Founders in rank order; empty for a joiner, which the leader tells the members."""
    generation: Count
    """Number of the founders' generation; 0 for a joiner."""
    collectives: str
    """``gloo`` or ``nccl``: backend that sums gradients on devices."""
    store_address: str
    store_port: Port
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
    etcd_endpoints: tuple[str, ...] = ()
    """Addresses of the etcd for the leader election; empty: the job's own store holds it."""
    etcd_prefix: str = ""
    """Prefix of this job's keys in that etcd."""

    @property
    def membership(self) -> Membership:
        """Membership of the founders' generation."""
        return Membership(self.members, self.global_batch, self.virtual_workers)

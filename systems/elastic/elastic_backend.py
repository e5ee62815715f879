"""What the backends on elastic jobs share: their options, abilities, and kind of job."""

from __future__ import annotations

from typing import TypedDict

from harness.cluster import Cluster, is_cpu
from harness.contracts.engine import Abilities
from harness.contracts.training import Phases
from systems.elastic.elastic_job import elastic_jobs
from systems.elastic.etcd_keystore import no_etcd
from systems.elastic.options import ElasticOptions
from systems.runtime.driven_backend import DrivenBackend
from systems.runtime.driven_job import MakeJob


class ElasticChoices(TypedDict, total=False):
    """Options that every elastic backend has: fields of ``ElasticOptions`` and, of
    ``RuntimeOptions``, those that make sense here. These classes say what they mean."""

    start: str
    device: str
    bind: str
    checkpoint_every: int
    data_order: str
    block_samples: int
    prefetch_steps: int
    loader_processes: int
    store: str
    etcd_endpoints: tuple[str, ...]
    collectives: str
    heartbeat_s: float
    hang_timeout_s: float
    leader_expiry_s: float
    leader_refresh_s: float
    start_timeout_s: float
    stop_timeout_s: float
    adjust_timeout_s: float
    leave_timeout_s: float
    recovery_timeout_s: float
    collective_timeout_s: float


class ElasticBackend(DrivenBackend):
    """A ``Backend`` but for its name and the options that are its own."""

    def __init__(self, options: ElasticOptions) -> None:
        super().__init__(options.runtime)
        self._options = options

    @property
    def abilities(self) -> Abilities:
        """Everything but the same bits at another size."""
        survive = self._options.recovery != "none"
        return Abilities(
            rescale=True,
            suspend=True,
            migrate=True,
            change_batch=True,
            adapt_batch=True,
            share_device=True,
            survive=survive,
        )

    @property
    def phases(self) -> Phases:
        """A start's; a rescale has one, ``switch``: what the workers that stay do not train."""
        start = ("spawn", "import", "build", "load", "group", "first_step")
        return Phases(start, ("group", "first_step"), ("save", "stop"), ("switch",))

    def problems(self, cluster: Cluster) -> list[str]:
        """Whether an etcd that was asked for can be reached, NCCL used on these slots, and kernels
        chosen as they need it."""
        options = self._options
        found = [
            no_etcd(options.etcd_endpoints) if options.store == "etcd" else None,
            _no_own_devices(cluster) if options.collectives == "nccl" else None,
        ]
        return [
            *super().problems(cluster),
            *(problem for problem in found if problem is not None),
        ]

    def _jobs(self, cluster: Cluster) -> MakeJob:
        return elastic_jobs(self._options, cluster)


def _no_own_devices(cluster: Cluster) -> str | None:
    """Why NCCL cannot connect the slots of a cluster, or None."""
    why = None
    if any(is_cpu(slot.device_type) for slot in cluster.slots):
        why = "has CPU slots"
    elif len({(slot.host, slot.device) for slot in cluster.slots}) < len(cluster.devices):
        why = "has several slots on one device"
    if why is None:
        return None
    return (
        f"collectives is nccl, which needs a CUDA device for each slot, but cluster"
        f" {cluster.name!r} {why}; use collectives=gloo, or another cluster"
    )

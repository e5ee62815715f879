"""Base class of the backends on elastic jobs: common options, abilities, and kind of job."""

from __future__ import annotations

from harness.cluster import Cluster, is_cpu
from harness.contracts.abilities import Abilities, Phases
from harness.contracts.training_order import TrainingOrder
from systems.elastic.driver.job import ElasticJob
from systems.elastic.driver.launch import ElasticProcesses
from systems.elastic.election.etcd_keystore import no_etcd
from systems.elastic.wire.options import ElasticOptions
from systems.runtime.driver.backend import DrivenBackend
from systems.runtime.driver.job_protocol import JobServices, MakeJob
from systems.runtime.wire.options import FetchingChoices


class ElasticChoices(FetchingChoices, total=False):
    """Options of every elastic backend: fields of ``ElasticOptions`` and of ``RuntimeOptions``.

    Those classes explain them. Fields of ``RuntimeOptions`` that have no meaning here are left out.
    """

    checkpoint_every: int
    store: str
    etcd_endpoints: tuple[str, ...]
    collectives: str
    heartbeat_s: float
    leader_expiry_s: float
    leader_refresh_s: float
    adjust_timeout_s: float
    leave_timeout_s: float
    recovery_timeout_s: float


class ElasticBackend(DrivenBackend):
    """Base of elastic backends, which add a name and options of their own to be a ``Backend``."""

    def __init__(self, options: ElasticOptions) -> None:
        super().__init__(options.runtime)
        self._options = options

    @property
    def abilities(self) -> Abilities:
        """Abilities of elastic backends: all except the same bits at another number of workers.

        A job survives deaths only if ``recovery`` is not ``none``.
        """
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
        """Phases of changes; a rescale's only one is ``switch``, in which staying workers stop."""
        start = ("spawn", "import", "build", "load", "group", "first_step")
        return Phases(start, ("group", "first_step"), ("save", "stop"), ("switch",))

    def problems(self, cluster: Cluster) -> list[str]:
        """Return the problems of these options on a cluster, a text for each.

        They are an etcd out of reach, NCCL on slots that cannot use it, and workers that would
        start too warm for the kernels that they need.
        """
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
        def make_job(order: TrainingOrder, services: JobServices, serial: int) -> ElasticJob:
            return ElasticJob(ElasticProcesses(order, self._options, cluster, services), serial)

        return make_job


def _no_own_devices(cluster: Cluster) -> str | None:
    """Return why NCCL cannot connect the slots of a cluster, or None if it can."""
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

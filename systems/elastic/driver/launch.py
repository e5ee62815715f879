"""Orders and start specifications of an elastic job's processes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from harness.cluster import Cluster, Slot
from harness.contracts.process import ProcessSpec, Warmth
from harness.contracts.training_order import TrainingOrder
from systems.elastic.election.etcd_keystore import KEYS
from systems.elastic.wire.options import ElasticOptions
from systems.elastic.wire.order import ElasticOrder
from systems.runtime.driver.job_protocol import JobServices
from systems.runtime.driver.launch import mark_path, process_spec, shared_order
from systems.runtime.wire.kernels import Kernels, kernels_on
from systems.runtime.wire.messages import StoreOrder

WORKER_ENTRY = "systems.elastic.worker.main:main"
STORE_ENTRY = "systems.runtime.driver.store_server:main"
STORE = "store"
"""Name of the store process, in the place of a worker's name."""


@dataclass(frozen=True, slots=True)
class Standing:
    """State of a job when it gives an order, the same for any worker that gets the order."""

    members: tuple[str, ...]
    """Founders in rank order; empty if the worker joins."""
    generation: int
    global_batch: int
    logical_workers: int
    """Number of the job's logical workers."""
    virtual_workers: tuple[int, ...]
    """Virtual workers of each founder; empty if no plan gives them."""
    target_step: int
    checkpoint: str | None
    slots: tuple[int, ...]
    """Slots of all workers that will train, this one included."""
    store: tuple[str, int]
    life: int
    """Number of this start or resume, unique in the job."""


@dataclass(frozen=True, slots=True)
class ElasticProcesses:
    """Maker of the orders and start specifications of one job's processes."""

    order: TrainingOrder
    options: ElasticOptions
    cluster: Cluster
    services: JobServices

    @property
    def where(self) -> str:
        """Text for the user that names the folder of the job's logs."""
        return f"logs: {self.order.job_dir}"

    def name_of(self, label: str) -> str:
        """Return the name that a process of the job has in the launcher."""
        return f"{self.order.job_id}.{label}"

    def worker_order(self, worker: str, slot: int, standing: Standing) -> ElasticOrder:
        """Return the order of one worker."""
        options, runtime = self.options, self.options.runtime
        return ElasticOrder(
            **shared_order(self.order, runtime, self.cluster, self.cluster.slots[slot]),
            worker=worker,
            joining=not standing.members,
            members=standing.members,
            generation=standing.generation,
            global_batch=standing.global_batch,
            logical_workers=standing.logical_workers if runtime.virtual else 0,
            virtual_workers=standing.virtual_workers,
            target_step=standing.target_step,
            checkpoint=standing.checkpoint,
            collectives=options.collectives,
            store_address=standing.store[0],
            store_port=standing.store[1],
            transfer=options.transfer,
            recovery=options.recovery,
            heartbeat_s=options.heartbeat_s,
            hang_timeout_s=options.hang_timeout_s,
            leader_expiry_s=options.leader_expiry_s,
            leader_refresh_s=options.leader_refresh_s,
            switch_allowance_s=options.switch_allowance_s,
            recovery_timeout_s=options.recovery_timeout_s,
            straggler=options.straggler,
            straggler_ratio=options.straggler_ratio,
            straggler_window=options.straggler_window,
            stops_first=options.stops_first,
            num_workers=len(standing.slots),
            mark=mark_path(self.order, worker),
            etcd_endpoints=options.etcd_endpoints if options.store == "etcd" else (),
            etcd_prefix=self._etcd_prefix(standing.life),
        )

    def worker_spec(self, worker: str, slot: int) -> ProcessSpec:
        """Return the specification by which a worker's process is started on its slot."""
        place = self.cluster.slots[slot]
        return process_spec(
            self.order,
            self.services,
            self.cluster,
            place,
            self._kernels(place),
            label=worker,
            entry=WORKER_ENTRY,
            arguments=(worker,),
            log=worker,
            warmth=self.options.runtime.warmth,
        )

    def store_spec(self, number: int, slots: Sequence[int]) -> ProcessSpec:
        """Return the store process's specification, for the host of the first of these slots."""
        warmth = self.options.runtime.warmth
        if warmth.is_kept:  # spares are for workers, which are started more often
            warmth = Warmth.PREIMPORTED
        place = self.cluster.slots[slots[0]]
        label = f"{STORE}{number}"
        return process_spec(
            self.order,
            self.services,
            self.cluster,
            place,
            self._kernels(place),
            label=label,
            entry=STORE_ENTRY,
            arguments=(STORE,),
            log=label,
            warmth=warmth,
            serves_only=True,
        )

    def store_order(self, slots: Sequence[int]) -> StoreOrder:
        """Return the order of the store process, on the host of the first of these slots."""
        return StoreOrder(address=self.cluster.hosts[self.cluster.slots[slots[0]].host].address)

    def _kernels(self, place: Slot) -> Kernels:
        return kernels_on(place, self.cluster, common=self.options.runtime.common_kernels)

    def _etcd_prefix(self, life: int) -> str:
        """Return an etcd key prefix that is unique to this run, job and start or resume."""
        start = hashlib.sha256(self.services.token.encode()).hexdigest()[:16]
        return f"{KEYS}{self.order.job_id}/{start}/{life}/"

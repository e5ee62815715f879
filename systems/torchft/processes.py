"""Process specifications and orders for a job under torchft."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.cluster import Cluster, Slot
from harness.contracts.process import ProcessSpec
from harness.contracts.training_order import TrainingOrder
from systems.runtime.driver.job_protocol import JobServices
from systems.runtime.driver.job_status import Saved
from systems.runtime.driver.launch import mark_path, process_spec, shared_order
from systems.runtime.wire.kernels import kernels_of
from systems.torchft.options import TorchftOptions
from systems.torchft.order import LighthouseOrder, ReplicaOrder

LIGHTHOUSE_ENTRY = "systems.torchft.lighthouse:main"
REPLICA_ENTRY = "systems.torchft.worker:main"
_QUIET = {"RUST_LOG": "error"}
"""Otherwise torchft's servers write several lines a step."""


@dataclass(frozen=True, slots=True)
class TorchftProcesses:
    """Maker of the specifications and orders of one job's processes."""

    order: TrainingOrder
    services: JobServices
    options: TorchftOptions
    cluster: Cluster

    def lighthouse_spec(self, run: int, slot: Slot) -> ProcessSpec:
        """Return the specification of the lighthouse, on the host of the job's first slot."""
        spec = process_spec(
            self.order,
            self.services,
            self.cluster,
            slot,
            replace(kernels_of(slot), num_threads=1),
            label=f"store.{run}",  # by this name the harness knows it for no worker
            entry=LIGHTHOUSE_ENTRY,
            arguments=(str(run),),
            log=f"lighthouse-{run:04d}",
            warmth=self.options.runtime.warmth,
            serves_only=True,
        )
        return replace(spec, env={**spec.env, **_QUIET})

    def lighthouse_order(self, slot: Slot) -> LighthouseOrder:
        """Return the order to the lighthouse."""
        return LighthouseOrder(
            address=self.cluster.hosts[slot.host].address,
            min_replicas=self.options.min_replicas,
            join_timeout_s=self.options.join_timeout_s,
            quorum_tick_s=self.options.quorum_tick_s,
            heartbeat_timeout_s=self.options.heartbeat_timeout_s,
        )

    def replica_spec(self, run: int, number: int, slot: Slot) -> ProcessSpec:
        """Return the specification of a replica on its slot."""
        spec = process_spec(
            self.order,
            self.services,
            self.cluster,
            slot,
            kernels_of(slot),
            label=f"{run}.{number}",
            entry=REPLICA_ENTRY,
            arguments=(str(run), str(number)),
            log=f"worker-{run:04d}-{number:03d}",
            warmth=self.options.runtime.warmth,
        )
        return replace(spec, env={**spec.env, **_QUIET})

    def replica_order(
        self,
        run: int,
        number: int,
        slot: Slot,
        *,
        founders: tuple[int, ...],
        base_generation: int,
        global_batch: int,
        target_step: int,
        checkpoint: Saved | None,
    ) -> ReplicaOrder:
        """Return the order to a replica."""
        options = self.options
        return ReplicaOrder(
            **shared_order(self.order, options.runtime, self.cluster, slot),
            number=number,
            founders=founders,
            base_generation=base_generation,
            global_batch=global_batch,
            target_step=target_step,
            checkpoint=checkpoint.path if checkpoint and founders else None,
            heartbeat_interval_s=options.heartbeat_interval_s,
            quorum_timeout_s=options.quorum_timeout_s,
            min_replicas=options.min_replicas,
            drop_failed_group=options.drop_failed_group,
            mark=mark_path(self.order, f"{run}.{number}"),
        )

    def last_generation(self) -> int:
        """Return the largest generation in the job's logs; 0 if there is none."""
        names = (path.stem for path in self.order.job_dir.glob("samples-*.jsonl"))
        return max((int(name.split("-")[1]) for name in names), default=0)

"""Process specifications and orders for a job under TorchElastic."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.cluster import Cluster, Slot
from harness.contracts.process import ProcessSpec
from harness.contracts.training_order import TrainingOrder
from systems.restart.order import WorkerOrder
from systems.runtime.driver.job_protocol import JobServices
from systems.runtime.driver.launch import process_spec, shared_order
from systems.runtime.wire.kernels import kernels_of
from systems.torchrun.membership import Round
from systems.torchrun.options import TorchrunOptions
from systems.torchrun.order import AgentOrder

STORE_ENTRY = "systems.runtime.driver.store_server:main"
AGENT_ENTRY = "systems.torchrun.agent:main"


@dataclass(frozen=True, slots=True)
class TorchrunProcesses:
    """Maker of the specifications and orders of one job's processes."""

    order: TrainingOrder
    services: JobServices
    options: TorchrunOptions
    cluster: Cluster

    def store_spec(self, serial: int, slot: Slot) -> ProcessSpec:
        """Return the specification of the rendezvous' store, on the host of the job's first
        slot."""
        return process_spec(
            self.order,
            self.services,
            self.cluster,
            slot,
            replace(kernels_of(slot), num_threads=1),
            label=f"store.{serial}",
            entry=STORE_ENTRY,
            arguments=("store",),
            log=f"store-{serial:04d}",
            serves_only=True,
        )

    def agent_spec(self, number: int, slot: Slot) -> ProcessSpec:
        """Return the specification of an agent; its worker inherits its cores, environment and
        log."""
        return process_spec(
            self.order,
            self.services,
            self.cluster,
            slot,
            kernels_of(slot),
            label=f"agent.{number}",
            entry=AGENT_ENTRY,
            arguments=(str(number),),
            log=f"agent-{number:04d}",
        )

    def agent_order(self, store: str, slot: Slot) -> AgentOrder:
        """Return the order to an agent; ``store`` is ``address:port`` of the rendezvous' store."""
        options = self.options
        return AgentOrder(
            job_id=self.order.job_id,
            store=store,
            address=self.cluster.hosts[slot.host].address,
            max_nodes=self.cluster.num_slots,
            last_call_timeout_s=options.last_call_timeout_s,
            keep_alive_interval_s=options.keep_alive_interval_s,
            keep_alive_attempts=options.keep_alive_attempts,
            monitor_interval_s=options.monitor_interval_s,
            max_restarts=options.max_restarts,
            log_dir=str(self.order.job_dir.absolute() / "torchelastic"),
        )

    def worker_order(
        self, round_: Round, rank: int, slot: Slot, target_step: int, own_device: bool
    ) -> WorkerOrder:
        """Return the order to the worker of a rank."""
        runtime = self.options.runtime
        store_address, _, store_port = round_.store.rpartition(":")
        return WorkerOrder(
            **shared_order(self.order, runtime, self.cluster, slot),
            generation=round_.number,
            rank=rank,
            num_workers=round_.num_workers,
            num_slots=round_.num_workers,
            global_batch=round_.global_batch,
            target_step=target_step,
            checkpoint=round_.checkpoint.path if round_.checkpoint else None,
            own_device=own_device,
            replay_layout=runtime.replay_layout,
            reduction=runtime.reduction,
            store_address=store_address,
            store_port=int(store_port),
        )

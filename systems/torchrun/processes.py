"""Process specifications and orders for a job under TorchElastic."""

from __future__ import annotations

from dataclasses import replace

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


def store_spec(
    order: TrainingOrder, services: JobServices, cluster: Cluster, serial: int, slot: Slot
) -> ProcessSpec:
    """Return the specification of the rendezvous' store, on the host of the job's first slot."""
    return process_spec(
        order,
        services,
        cluster,
        slot,
        replace(kernels_of(slot), num_threads=1),
        label=f"store.{serial}",
        entry=STORE_ENTRY,
        arguments=("store",),
        log=f"store-{serial:04d}",
        serves_only=True,
    )


def agent_spec(
    order: TrainingOrder, services: JobServices, cluster: Cluster, number: int, slot: Slot
) -> ProcessSpec:
    """Return the specification of an agent; its worker inherits its cores, environment and log."""
    return process_spec(
        order,
        services,
        cluster,
        slot,
        kernels_of(slot),
        label=f"agent.{number}",
        entry=AGENT_ENTRY,
        arguments=(str(number),),
        log=f"agent-{number:04d}",
    )


def agent_order(
    order: TrainingOrder, options: TorchrunOptions, cluster: Cluster, store: str, slot: Slot
) -> AgentOrder:
    """Return the order to an agent."""
    return AgentOrder(
        job_id=order.job_id,
        store=store,
        address=cluster.hosts[slot.host].address,
        max_nodes=cluster.num_slots,
        last_call_timeout_s=options.last_call_timeout_s,
        keep_alive_interval_s=options.keep_alive_interval_s,
        keep_alive_attempts=options.keep_alive_attempts,
        monitor_interval_s=options.monitor_interval_s,
        max_restarts=options.max_restarts,
        log_dir=str(order.job_dir.absolute() / "torchelastic"),
    )


def worker_order(
    order: TrainingOrder,
    options: TorchrunOptions,
    cluster: Cluster,
    round_: Round,
    rank: int,
    slot: Slot,
    target_step: int,
    own_device: bool,
) -> WorkerOrder:
    """Return the order to the worker of a rank."""
    store_address, _, store_port = round_.store.rpartition(":")
    return WorkerOrder(
        **shared_order(order, options.runtime, cluster, slot),
        generation=round_.number,
        rank=rank,
        num_workers=round_.num_workers,
        num_slots=round_.num_workers,
        global_batch=round_.global_batch,
        target_step=target_step,
        checkpoint=round_.checkpoint.path if round_.checkpoint else None,
        own_device=own_device,
        replay_layout=options.runtime.replay_layout,
        reduction=options.runtime.reduction,
        store_address=store_address,
        store_port=int(store_port),
    )

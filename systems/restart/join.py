"""Rendezvous of the workers of a generation, over a store that the first worker runs."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist

from systems.restart.order import WorkerOrder
from systems.restart.step_sync import SumWords
from systems.runtime.reduction.ordered import Reduction, join_alone
from systems.runtime.reduction.stock import StockReduction
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.groups import Group, build_group
from systems.runtime.wire.messages import StoreAt, StoreReady
from systems.runtime.wire.name_lookups import no_name_lookups
from systems.runtime.worker.session import Program
from systems.virtual.workers import ordered_reduction

STORE_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Joined:
    """A worker's connections to the others."""

    sum_words: SumWords | None
    """Begins the all-reduce of the control words; None if there is no other worker."""
    group: Group | None
    """Process group of an ordered reduction."""
    store: Any
    """Kept alive while the job trains, since the first worker's store serves all."""

    def reduction(self, order: WorkerOrder, program: Program) -> Reduction:
        """Return the reduction of the gradients."""
        if self.group is None:
            replays = order.replay_layout and order.num_workers > 2
            return StockReduction(program.model, program.device, replays=replays)
        reduction = ordered_reduction(
            program, order.logical_workers, carries_ranks=order.carries_ranks
        )
        reduction.attach(self.group)
        return reduction


def join(order: WorkerOrder, client: ControlClient, device: torch.device) -> Joined:
    """Form the process groups of a generation.

    Raises:
        ControlError: the driver sent something other than the store's address.
    """
    ordered = order.reduction == "ordered"
    if ordered and order.num_workers == 1:
        join_alone()
        return Joined(None, Group(order.generation, 0, 1, None), None)
    store, address, port = _store(order, client)
    if ordered:
        join_alone()
        group = build_group(
            address,
            port,
            order.generation,
            order.rank,
            order.num_workers,
            STORE_TIMEOUT_S,
            collective_timeout_s=order.collective_timeout_s,
        )
        return Joined(group.all_reduce, group, store)
    timeout = timedelta(seconds=order.collective_timeout_s)
    # NCCL needs a device for each worker. This branch has not been run on such a machine.
    backend = "nccl" if device.type == "cuda" and order.own_device else "gloo"
    dist.init_process_group(
        backend, store=store, rank=order.rank, world_size=order.num_workers, timeout=timeout
    )
    if order.num_workers == 1:
        return Joined(None, None, store)
    words = cast(dist.ProcessGroup, dist.new_group(backend="gloo", timeout=timeout))
    return Joined(
        lambda tensor: cast(dist.Work, dist.all_reduce(tensor, group=words, async_op=True)),
        None,
        store,
    )


def _store(order: WorkerOrder, client: ControlClient) -> tuple[Any, str, int]:
    """Return the generation's store and its address and port.

    Unless the order names a port, the first worker's store listens on a free port that the kernel
    chooses. So no two jobs can meet. The driver passes the port on.
    """
    address, port = order.store_address or order.address, order.store_port
    if order.rank == 0:
        listener = socket.create_server((address, port))
        port = listener.getsockname()[1]
        with no_name_lookups(address):
            store = dist.TCPStore(  # type: ignore[attr-defined]
                address,
                port,
                order.num_workers,
                is_master=True,
                wait_for_workers=False,
                master_listen_fd=listener.detach(),
            )
        if not order.store_port:
            client.send(StoreReady(address=address, port=port))
    else:
        if not port:
            found = client.expect(StoreAt, STORE_TIMEOUT_S)
            address, port = found.address, found.port
        with no_name_lookups(address):
            store = dist.TCPStore(  # type: ignore[attr-defined]
                address, port, order.num_workers, wait_for_workers=False
            )
    return store, address, port

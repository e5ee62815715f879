"""Rendezvous of the workers of a generation, over a store that the first worker runs."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist

from systems.restart.order import WorkerOrder
from systems.runtime.reduction.ordered import Reduction, join_alone
from systems.runtime.reduction.stock import StockReduction
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.groups import Group, build_group
from systems.runtime.wire.messages import StoreAt, StoreReady
from systems.runtime.wire.name_lookups import no_name_lookups
from systems.runtime.worker.session import Program
from systems.runtime.worker.step_sync import Peers
from systems.virtual.workers import ordered_reduction

STORE_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Joined:
    """A worker's connections to the others."""

    peers: Peers
    """Connection over which the words of each step travel (``StepSync``)."""
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


@dataclass(frozen=True, slots=True)
class _StockPeers:
    """Workers of a stock process group; implements ``Peers``."""

    rank: int
    size: int
    group: dist.ProcessGroup | None
    """Group of its own for the words, so that they overlap with gradients; None if alone."""

    def all_reduce(self, tensor: torch.Tensor) -> dist.Work:
        """Begin to sum a tensor over all workers, in place."""
        return cast(dist.Work, dist.all_reduce(tensor, group=self.group, async_op=True))


def join(order: WorkerOrder, client: ControlClient, device: torch.device) -> Joined:
    """Form the process groups of a generation.

    Raises:
        ControlError: the driver sent something other than the store's address.
    """
    ordered = order.reduction == "ordered"
    if ordered and order.num_workers == 1:
        join_alone()
        group = Group(order.generation, 0, 1, None)
        return Joined(group, group, None)
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
        return Joined(group, group, store)
    timeout = timedelta(seconds=order.collective_timeout_s)
    # NCCL needs a device for each worker. This branch has not been run on such a machine.
    backend = "nccl" if device.type == "cuda" and order.own_device else "gloo"
    dist.init_process_group(
        backend, store=store, rank=order.rank, world_size=order.num_workers, timeout=timeout
    )
    words = None
    if order.num_workers > 1:
        words = cast(dist.ProcessGroup, dist.new_group(backend="gloo", timeout=timeout))
    return Joined(_StockPeers(order.rank, order.num_workers, words), None, store)


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

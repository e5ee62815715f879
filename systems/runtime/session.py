"""What a worker does with its order until it can train: import, build, join, load.

Every stage is timed on ``time.monotonic``, which all processes of one host share. The
stages follow each other without a gap: spawn, import, build, group, load, first_step.
"""

from __future__ import annotations

import importlib
import random
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from harness.contracts.training import Workload
from systems.runtime import checkpoint
from systems.runtime.agreement import Agreement
from systems.runtime.control import ControlClient, ControlError
from systems.runtime.data_order import DataOrder, DataState, Plan, PositionOrder, step_seed
from systems.runtime.order import WorkerOrder

STORE_TIMEOUT_S = 300.0


@dataclass(slots=True)
class Session:
    """Everything a training loop works on."""

    order: WorkerOrder
    client: ControlClient
    workload: Workload
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    parallel: torch.nn.Module
    """The model as its workers share it."""
    device: torch.device
    agreement: Agreement
    data: DataOrder
    step: int
    """Steps executed so far."""
    data_state: DataState
    phases_s: dict[str, float]

    def plan(self) -> Plan:
        """What the next step consumes."""
        return self.data.plan(self.data_state, self.order.num_workers, self.order.global_batch)

    def batch(self, plan: Plan) -> Mapping[str, torch.Tensor]:
        """Random states set and this worker's samples fetched for the next step."""
        order = self.order
        seed_all(step_seed(order.seed, self.step, order.rank), self.device)
        batch = self.workload.samples(self.data.ids(plan.parts[order.rank]))
        if self.device.type == "cpu":
            return batch
        return {name: value.to(self.device) for name, value in batch.items()}


def seed_all(seed: int, device: torch.device) -> None:
    """Seed torch (of this device only: seeding all of them costs), NumPy and Python."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    random.seed(seed)


def prepare(order: WorkerOrder, client: ControlClient, ordered_at: float) -> Session:
    """Import, build, join the group and load; with the time that each took."""
    phases_s: dict[str, float] = {}
    at = ordered_at

    def done(phase: str) -> None:
        nonlocal at
        now = time.monotonic()
        phases_s[phase] = now - at
        at = now

    module_name, _, class_name = order.workload.rpartition(".")
    workload_class = getattr(importlib.import_module(module_name), class_name)
    # Torch imports a good part of itself only when the first optimizer is made.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    done("import")
    torch.set_num_threads(order.num_threads)
    device = _device(order)
    if device.type == "cuda" or order.num_threads > 1:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    workload = cast(Workload, workload_class(**order.options))
    model = workload.build_model(order.seed).to(device)
    optimizer = workload.build_optimizer(model)
    done("build")
    group = _join(order, client, device)
    done("group")
    data = PositionOrder(order.seed, workload.num_samples)
    step, data_state = 0, data.initial()
    if order.checkpoint is not None:
        manifest = Path(order.checkpoint)
        found = checkpoint.load(manifest, model, optimizer, verify=order.rank == 0)
        step = found.step
        data_state = data.from_json({"order": data.kind, "consumed": found.position})
    parallel = DistributedDataParallel(model, device_ids=[0] if device.type == "cuda" else None)
    done("load")
    session = Session(
        order=order,
        client=client,
        workload=workload,
        model=model,
        optimizer=optimizer,
        parallel=parallel,
        device=device,
        agreement=Agreement(order.rank, group, client, order.target_step),
        data=data,
        step=step,
        data_state=data_state,
        phases_s=phases_s,
    )
    if order.replay_layout and step > 0 and order.num_workers > 2:
        _replay_layout(session)
        done("layout")
    return session


def _device(order: WorkerOrder) -> torch.device:
    wanted = order.device
    if wanted == "auto":
        on_cuda = order.device_type != "cpu" and torch.cuda.is_available()
        wanted = "cuda" if on_cuda else "cpu"
    if wanted == "cuda":
        torch.cuda.set_device(0)  # the only one this process can see
    return torch.device(wanted)


def _join(
    order: WorkerOrder, client: ControlClient, device: torch.device
) -> dist.ProcessGroup | None:
    """Form the group of the gradients, and, beside others, the one of the control words.

    Unless the order says where, the first worker's store listens on a free port that the
    kernel chose, so that no two jobs can meet; the driver passes the port on.
    """
    address, port = order.store_address or order.address, order.store_port
    if order.rank == 0:
        listener = socket.create_server((address, port))
        port = listener.getsockname()[1]
        store = dist.TCPStore(  # type: ignore[attr-defined]
            address,
            port,
            order.num_workers,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
        if not order.store_port:
            client.send({"kind": "store", "address": address, "port": port})
    else:
        if not port:
            message = client.receive(STORE_TIMEOUT_S)
            if message["kind"] != "store":
                raise ControlError(f"the driver sent {message['kind']!r} instead of the store")
            address, port = message["address"], message["port"]
        store = dist.TCPStore(  # type: ignore[attr-defined]
            address, port, order.num_workers, wait_for_workers=False
        )
    timeout = timedelta(seconds=order.collective_timeout_s)
    # NCCL wants a device for each worker. This choice has not been tried on such a machine.
    backend = "nccl" if device.type == "cuda" and order.own_device else "gloo"
    dist.init_process_group(
        backend, store=store, rank=order.rank, world_size=order.num_workers, timeout=timeout
    )
    if order.num_workers == 1:
        return None
    return cast(dist.ProcessGroup, dist.new_group(backend="gloo", timeout=timeout))


def _replay_layout(session: Session) -> None:
    """Make the gradient buckets what they are in a job that was never interrupted.

    DistributedDataParallel sorts parameters into buckets anew after its first backward pass,
    by the order in which gradients came, and above two workers the sums' last bits depend on
    the buckets. So one pass is made and forgotten; random states are set anew in each step.
    """
    buffers = [(buffer, buffer.clone()) for buffer in session.model.buffers()]
    batch = session.batch(session.plan())
    torch.autograd.backward(session.workload.loss(session.parallel, batch))
    session.optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        for buffer, before in buffers:
            buffer.copy_(before)


def leave(session: Session, results: Mapping[str, Any] | None) -> None:
    """Drop the groups; ``results`` are the first worker's last word."""
    if results is not None:
        session.client.send({"kind": "finished", **results})
    with suppress(RuntimeError):  # a neighbour may be gone already, which is all right now
        dist.destroy_process_group()

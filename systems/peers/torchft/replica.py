"""Processes of ``python -m systems.peers.torchft``: a replica of torchft, and its lighthouse."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from harness.configuration.named_classes import locate
from systems.runtime.wire.step_log import LineWriter

TIMEOUT = timedelta(seconds=30)
WRAPPERS = {
    "flat": "all gradients in one sum, after the backward pass",
    "ddp": "torchft's DistributedDataParallel",
}
"""Ways to sum gradients. torchft's PureDistributedDataParallel is not offered. In version 0.2 no
code waits for its sums, and gradients are not divided by the number of replicas."""


def lighthouse(argv: Sequence[str]) -> int:
    """Serve as torchft's lighthouse and never return; ``argv`` is ``ADDRESS FILE HEARTBEAT_S``.

    The file receives the address at which the lighthouse listens.
    """
    from torchft.coordination import LighthouseServer

    address, path, heartbeat_s = argv
    server = LighthouseServer(
        bind=f"{address}:0",
        min_replicas=1,
        heartbeat_timeout_ms=int(1000 * float(heartbeat_s)),
    )
    partial = Path(path).with_suffix(".partial")
    partial.write_text(server.address(), encoding="utf-8")
    partial.replace(path)  # a rename, so that a polling reader never finds a partial address
    threading.Event().wait()
    return 0


def main(argv: Sequence[str]) -> int:
    """Train as a replica and never return; log one line for each committed step.

    ``argv`` is ``ADDRESS LIGHTHOUSE NAME LOG WORKLOAD OPTIONS BATCH NUMBER REPLICAS WRAPPER``.
    """
    address, where, name, log, target, options, batch, number, replicas, wrapper = argv
    import torch
    import torch.distributed as dist
    from torchft import Manager, Optimizer, ProcessGroupGloo
    from torchft.ddp import DistributedDataParallel

    torch.set_num_threads(1)
    workload = locate(target, "workload", "workload")(**json.loads(options))
    model = workload.build_model(0)
    inner = workload.build_optimizer(model)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        address, 0, is_master=True, wait_for_workers=False
    )

    def load(state: dict[str, Any]) -> None:
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=TIMEOUT),
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": inner.state_dict()},
        min_replica_size=1,
        timeout=TIMEOUT,
        rank=0,
        world_size=1,
        store_addr=address,
        store_port=store.port,
        lighthouse_addr=where,
        replica_id=name,
        hostname=address,
    )
    is_flat = wrapper == "flat"
    parallel = model if is_flat else DistributedDataParallel(manager, model)
    optimizer = Optimizer(manager, inner)
    lines = LineWriter(Path(log), at_once=True)
    size = int(batch)
    while True:
        started, before = time.monotonic(), manager.current_step()
        first = (before * int(replicas) + int(number)) * size % (workload.num_samples - size)
        optimizer.zero_grad()
        loss = workload.loss(parallel, workload.samples(range(first, first + size)))
        loss.backward()
        if is_flat:
            _sum_gradients(manager, [p.grad for p in model.parameters() if p.grad is not None])
        optimizer.step()
        step = manager.current_step()
        if step > before:
            lines.add(
                {
                    "step": step,
                    "replicas": manager.num_participants(),
                    "started": started,
                    "ended": time.monotonic(),
                }
            )


def _sum_gradients(manager: Any, gradients: list[Any]) -> None:
    """Average gradients over the replicas, in place."""
    import torch

    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    manager.allreduce(flat).wait()
    pieces = torch.split(flat, [gradient.numel() for gradient in gradients])
    for gradient, piece in zip(gradients, pieces, strict=True):
        gradient.copy_(piece.view_as(gradient))

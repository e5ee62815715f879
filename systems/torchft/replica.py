"""A replica of torchft, and its lighthouse: processes of ``python -m systems.torchft``."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from systems.runtime.step_log import LineWriter

TIMEOUT = timedelta(seconds=30)


def lighthouse(argv: Sequence[str]) -> int:
    """Entry point: ``ADDRESS FILE HEARTBEAT_S``; writes where it listens, and never returns."""
    from torchft.coordination import LighthouseServer

    address, path, heartbeat_s = argv
    server = LighthouseServer(
        bind=f"{address}:0",
        min_replicas=1,
        join_timeout_ms=1000,
        quorum_tick_ms=50,
        heartbeat_timeout_ms=int(1000 * float(heartbeat_s)),
    )
    partial = Path(path).with_suffix(".partial")
    partial.write_text(server.address(), encoding="utf-8")
    partial.replace(path)
    threading.Event().wait()
    return 0


def main(argv: Sequence[str]) -> int:
    """Entry point: ``ADDRESS LIGHTHOUSE NAME LOG WORKLOAD BATCH WRAPPER``; never returns.

    Trains for ever, one line in the log for each step that was committed.
    """
    import torch
    import torch.distributed as dist
    from torchft import Manager, Optimizer, ProcessGroupGloo
    from torchft.ddp import DistributedDataParallel, PureDistributedDataParallel

    address, where, name, log, target, batch, wrapper = argv
    torch.set_num_threads(1)
    module_name, _, class_name = target.rpartition(".")
    workload = getattr(importlib.import_module(module_name), class_name)()
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
    wrap = {"ddp": DistributedDataParallel, "pure": PureDistributedDataParallel}[wrapper]
    parallel = wrap(manager, model)
    optimizer = Optimizer(manager, inner)
    lines = LineWriter(Path(log), at_once=True)
    size = int(batch)
    while True:
        started, before = time.monotonic(), manager.current_step()
        first = before * size % (workload.num_samples - size)
        optimizer.zero_grad()
        loss = workload.loss(parallel, workload.samples(range(first, first + size)))
        loss.backward()
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

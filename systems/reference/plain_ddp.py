"""Plain data-parallel training, as one would write it by hand: what ``static`` is held to.

A stand-alone program. It imports nothing of this project but the workload it is given, and
does what every script does that uses stock DistributedDataParallel over gloo: no control
channel, no log, no agreement, one thread for each worker.

    python -m systems.reference.plain_ddp workloads.toy.Toy --workers 2 --cores 0 1 \\
        --batch 32 --steps 100 --out steps.jsonl

The first worker writes one line for each step, when all have ended: ``step``, ``started``
(``time.monotonic``) and ``duration_s``. With ``--bitwise`` the script also does what makes
bits comparable: it sets all random states before each step (or, with ``--streams``, before the
first one only), adds the mean loss and every
worker's to each line (``loss``, ``losses``, exact bits), and ends with digests of the state.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m systems.reference.plain_ddp",
        description="Train a workload under stock DistributedDataParallel over gloo.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("workload", help="package.module.Class")
    parser.add_argument("--options", type=json.loads, default={}, help="of the class, as JSON")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument(
        "--cores", type=int, nargs="*", default=[], help="one for each worker; none: not pinned"
    )
    parser.add_argument("--steps", type=int, default=60, help="steps to train")
    parser.add_argument("--batch", type=int, default=32, help="global batch")
    parser.add_argument("--seed", type=int, default=0, help="of parameters and data order")
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines to write")
    parser.add_argument("--bitwise", action="store_true", help="seed each step; losses, digests")
    parser.add_argument(
        "--streams", action="store_true", help="with --bitwise: seed before the first step only"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Start the workers and wait for them; 1 if one failed."""
    parser = build_parser()
    options = parser.parse_args(argv)
    if options.cores and len(options.cores) != options.workers:
        parser.error(f"--cores names {len(options.cores)} cores for {options.workers} workers")
    if not 1 <= options.workers <= options.batch:
        parser.error(f"--workers is {options.workers}; use 1 to {options.batch}, the batch")
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        workers = [
            context.Process(target=_work, args=(options, rank, f"{folder}/store"), daemon=True)
            for rank in range(options.workers)
        ]
        for worker in workers:
            worker.start()
        running = list(workers)
        while running:
            multiprocessing.connection.wait([worker.sentinel for worker in running])
            if any(worker.exitcode for worker in running):
                return 1  # the others would wait for it; as daemons they end with us
            running = [worker for worker in running if worker.exitcode is None]
    return 0


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _work(options: argparse.Namespace, rank: int, store: str) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if options.cores:
        os.sched_setaffinity(0, [options.cores[rank]])
    lines = train(options, rank, store)
    if rank == 0:
        partial = options.out.with_name(options.out.name + ".partial")
        partial.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        partial.replace(options.out)
    os._exit(0)  # nothing is left to do, and taking torch's threads down can fail


def train(options: argparse.Namespace, rank: int, store: str) -> list[dict[str, Any]]:
    """The training of one worker; what the first one writes down."""
    import numpy as np
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    world, batch, seed = options.workers, options.batch, options.seed
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    module_name, _, class_name = options.workload.rpartition(".")
    workload = getattr(importlib.import_module(module_name), class_name)(**options.options)
    model = workload.build_model(seed)
    optimizer = workload.build_optimizer(model)
    parallel = DistributedDataParallel(model)
    losses = dist.new_group(backend="gloo") if options.bitwise else None
    count = workload.num_samples
    sequence = np.concatenate(
        [
            np.random.default_rng([seed, zlib.crc32(b"data order"), epoch]).permutation(count)
            for epoch in range(options.steps * batch // count + 1)
        ]
    )
    torch.manual_seed(seed + rank)
    lines: list[dict[str, Any]] = []
    for step in range(options.steps):
        started = time.monotonic()
        taken = np.arange(step * batch, (step + 1) * batch)
        mine, epochs = (
            np.array_split(part, world)[rank] for part in (sequence[taken], taken // count)
        )
        if options.bitwise and (step == 0 or not options.streams):
            _seed(seed, step, rank)
        optimizer.zero_grad()
        loss = workload.loss(parallel, workload.samples(mine.tolist(), epochs.tolist()))
        (loss * (len(mine) * world / batch)).backward()
        workload.update(optimizer, batch, step)
        lines.append(
            {"step": step + 1, "started": started, "duration_s": time.monotonic() - started}
        )
        if options.bitwise:
            # Third of three: from three workers on the last bits depend on the place in a sum.
            words = [0.0, 0.0, loss.item() * (len(mine) / batch)]
            total = torch.tensor(words, dtype=torch.float64)
            dist.all_reduce(total, group=losses)
            lines[-1]["loss"] = float(total[2]).hex()
            own = torch.zeros(world, dtype=torch.float64)
            own[rank] = loss.item()
            dist.all_reduce(own, group=losses)
            lines[-1]["losses"] = [value.hex() for value in own.tolist()]
    dist.barrier()
    dist.destroy_process_group()
    return [*lines, _digests(model, optimizer)] if options.bitwise else lines


def _seed(seed: int, step: int, rank: int) -> None:
    import numpy as np
    import torch

    name = f"step/{seed}/{step}/{rank}".encode()
    number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1
    torch.manual_seed(number)
    np.random.seed(number & 0xFFFFFFFF)
    random.seed(number)


def _digests(model: Any, optimizer: Any) -> dict[str, str]:
    import torch

    tensors: dict[str, Any] = {}
    values: dict[str, dict[str, Any]] = {}
    for index, parameter in enumerate(model.parameters()):
        for key, value in optimizer.state[parameter].items():
            if isinstance(value, torch.Tensor):
                tensors[f"{index}/{key}"] = value
            else:
                values.setdefault(str(index), {})[key] = value
    groups = [
        {key: value for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]
    return {
        "digest_parameters": _digest(dict(model.named_parameters())),
        "digest_buffers": _digest(dict(model.named_buffers())),
        "digest_optimizer": _digest(tensors, [values, groups]),
    }


def _digest(tensors: Mapping[str, Any], values: Any = None) -> str:
    import torch

    state = hashlib.blake2b(digest_size=32)
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        state.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    if values is not None:
        state.update(json.dumps(values, sort_keys=True).encode())
    return state.hexdigest()


if __name__ == "__main__":
    sys.exit(main())

"""The training of one worker of the script."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import random
import time
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

from .evidence import Evidence, digests


def train(options: argparse.Namespace, rank: int, store: str) -> list[dict[str, Any]]:
    """Train one worker; return the lines that the first worker writes."""
    import numpy as np
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    for library in (torch.backends.mkldnn, torch.backends.nnpack) * options.common_kernels:
        library.set_flags(False)
    world, batch, seed = options.workers, options.batch, options.seed
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    module_name, _, class_name = options.workload.rpartition(".")
    workload = getattr(importlib.import_module(module_name), class_name)(**options.options)
    model = workload.build_model(seed)
    optimizer = workload.build_optimizer(model)
    evidence = Evidence(options, rank, model, optimizer)
    parallel = model if options.bare else DistributedDataParallel(model)
    hold = nullcontext if options.bare else parallel.no_sync
    losses = dist.new_group(backend="gloo") if options.bitwise else None
    count = workload.num_samples
    sequence = np.concatenate(
        [
            np.random.default_rng([seed, zlib.crc32(b"data order"), epoch]).permutation(count)
            for epoch in range(options.steps * batch // count + 1)
        ]
    )
    epochs = np.arange(len(sequence)) // count
    slices = [
        [np.array_split(part[at : at + batch], world)[rank].tolist() for part in (sequence, epochs)]
        for at in range(0, options.steps * batch, batch)
    ]
    batches: Iterator[Any] = map(_Samples(workload).__getitem__, slices)
    if options.loaders:
        how: dict[str, Any] = {"dataset": _Samples(workload), "num_workers": options.loaders}
        how["generator"] = torch.Generator().manual_seed(_number(seed, 0, rank))
        batches = iter(torch.utils.data.DataLoader(sampler=slices, batch_size=None, **how))
    torch.manual_seed(seed + rank)
    lines: list[dict[str, Any]] = []
    for step in range(options.steps):
        started = time.monotonic()
        if options.bitwise and (step == 0 or not options.streams):
            _seed(seed, step, rank)
        optimizer.zero_grad()
        samples, size = next(batches), len(slices[step][0])
        evidence.begin(step + 1, samples, slices[step])
        own, weight = None, size * world / batch
        *before, last = _micro_batches(samples, size, options.accumulate)
        for part, share in before:
            with hold():
                own = _backward(workload, parallel, part, share, weight, own)
        own = _backward(workload, parallel, *last, weight, own, evidence)
        evidence.reduced()
        workload.update(optimizer, batch, step)
        evidence.updated()
        lines.append(
            {"step": step + 1, "started": started, "duration_s": time.monotonic() - started}
        )
        if options.begun and step == rank == 0:
            options.begun.touch()
        if options.bitwise:
            # Third of three words, as in a job: from three workers on the last bits depend on its
            # place.
            words = [0.0, 0.0, own.item() * (size / batch)]
            total = torch.tensor(words, dtype=torch.float64)
            dist.all_reduce(total, group=losses)
            lines[-1]["loss"] = float(total[2]).hex()
            each = torch.zeros(world, dtype=torch.float64)
            each[rank] = own.item()
            dist.all_reduce(each, group=losses)
            lines[-1]["losses"] = [value.hex() for value in each.tolist()]
    dist.barrier()
    # Do not call destroy_process_group: DistributedDataParallel would free its group on return,
    # holding the interpreter's lock, and wait for gloo's threads. These may need that lock to free
    # a tensor (torch 2.13). The process ends without it.
    return [*lines, digests(model, optimizer)] if options.bitwise else lines


def _number(seed: int, step: int, rank: int) -> int:
    name = f"step/{seed}/{step}/{rank}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1


def _seed(seed: int, step: int, rank: int) -> None:
    import numpy as np
    import torch

    number = _number(seed, step, rank)
    torch.manual_seed(number)
    np.random.seed(number & 0xFFFFFFFF)
    random.seed(number)


def _micro_batches(samples: Any, size: int, count: int) -> list[tuple[Any, float]]:
    import numpy as np

    if count == 1:
        return [(samples, 1.0)]
    cuts = np.array_split(np.arange(size), min(count, size))
    return [
        ({n: v[cut[0] : cut[-1] + 1] for n, v in samples.items()}, len(cut) / size) for cut in cuts
    ]


def _backward(
    workload: Any, model: Any, part: Any, share: float, weight: float, before: Any, to: Any = None
) -> Any:
    loss = workload.loss(model, part)
    own = loss.detach() if share == 1.0 else loss.detach() * share
    own = own if before is None else before + own
    if to is not None:
        to.computed(own)
    (loss * (weight * share)).backward()
    return own


class _Samples:
    """Data set whose items are batches, for a DataLoader that is given ids and epochs."""

    def __init__(self, workload: Any) -> None:
        self._workload = workload

    def __getitem__(self, wanted: list[list[int]]) -> Any:
        return self._workload.samples(*wanted)

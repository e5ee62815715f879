"""Plain data-parallel training, as one would write it by hand: what ``static`` is held to.

A stand-alone program. It imports nothing of this project but the workload it is given, and
does what every script does that uses stock DistributedDataParallel over gloo: no control
channel, no log, no agreement, one thread for each worker.

    python -m systems.reference.plain_ddp workloads.toy.Toy --workers 2 --cores 0 1 \\
        --batch 32 --steps 100 --out steps.jsonl

The first worker writes one line for each step, when all have ended: ``step``, ``started``
(``time.monotonic``) and ``duration_s``. With ``--bitwise`` the script also does what makes
bits comparable: it sets all random states before each step (or, with ``--streams``, before the
first one only), adds the mean loss and every worker's to each line (``loss``, ``losses``, exact
bits), and ends with digests of the state. ``--common-kernels`` is EasyScale's level D2.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
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
    parser.add_argument("--begun", type=Path, help="file to make after the first step")
    parser.add_argument("--bitwise", action="store_true", help="seed each step; losses, digests")
    parser.add_argument("--streams", action="store_true", help="--bitwise: seed step 1 only")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--common-kernels", action="store_true", help="no oneDNN, no NNPACK")
    parser.add_argument("--bare", action="store_true", help="no DistributedDataParallel: alone")
    parser.add_argument(
        "--loaders", type=int, default=0, help="processes of a DataLoader for each worker"
    )
    parser.add_argument(
        "--evidence",
        choices=("none", "digests", "tensors", "operators"),
        default="none",
        help="what to keep of the steps in --evidence-steps, beside --out, for"
        " python -m harness.consistency",
    )
    parser.add_argument("--evidence-steps", type=int, nargs=2, default=[1, 30], help="first, last")
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
            context.Process(target=_work, args=(options, rank, f"{folder}/store"))
            for rank in range(options.workers)
        ]
        for worker in workers:
            worker.start()
        running = list(workers)
        while running:
            multiprocessing.connection.wait([worker.sentinel for worker in running])
            if any(worker.exitcode for worker in running):
                for worker in running:
                    worker.kill()  # the others would wait for it
                return 1
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
    for library in (torch.backends.mkldnn, torch.backends.nnpack) * options.common_kernels:
        library.set_flags(False)
    world, batch, seed = options.workers, options.batch, options.seed
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    module_name, _, class_name = options.workload.rpartition(".")
    workload = getattr(importlib.import_module(module_name), class_name)(**options.options)
    model = workload.build_model(seed)
    optimizer = workload.build_optimizer(model)
    evidence = _Evidence(options, rank, model, optimizer)
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
            # Third of three: from three workers on the last bits depend on the place in a sum.
            words = [0.0, 0.0, own.item() * (size / batch)]
            total = torch.tensor(words, dtype=torch.float64)
            dist.all_reduce(total, group=losses)
            lines[-1]["loss"] = float(total[2]).hex()
            each = torch.zeros(world, dtype=torch.float64)
            each[rank] = own.item()
            dist.all_reduce(each, group=losses)
            lines[-1]["losses"] = [value.hex() for value in each.tolist()]
    dist.barrier()
    dist.destroy_process_group()
    return [*lines, _digests(model, optimizer)] if options.bitwise else lines


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
    """A data set whose items are batches, for a DataLoader that is told ids and epochs."""

    def __init__(self, workload: Any) -> None:
        self._workload = workload

    def __getitem__(self, wanted: list[list[int]]) -> Any:
        return self._workload.samples(*wanted)


class _Evidence:
    """What one worker saw and made, in the format of ``harness.contracts.evidence``."""

    def __init__(self, options: argparse.Namespace, rank: int, model: Any, optimizer: Any) -> None:
        self._kind, self._folder = options.evidence, options.out.parent
        self._first, self._last = options.evidence_steps
        self._rank, self._model, self._optimizer = rank, model, optimizer
        self._step, self._is_on = 0, False
        self._tensors: dict[str, dict[str, Any]] = {}
        self._gradients: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}
        if self._kind == "none":
            return
        for name, parameter in model.named_parameters():
            parameter.register_hook(partial(self._gradient, name))
        model.register_forward_pre_hook(lambda module, inputs: self._before_forward())
        for name, module in model.named_modules():
            if self._kind == "operators" and not list(module.children()):
                module.register_forward_hook(partial(self._output, name))

    def begin(self, step: int, samples: Mapping[str, Any], wanted: Sequence[Any]) -> None:
        self._step = step
        self._is_on = self._kind != "none" and self._first <= step <= self._last
        if self._is_on:
            self._outputs.clear()
            self._gradients.clear()
            if self._rank == 0:
                self._add("all", "parameters", dict(self._model.named_parameters()))
            ids = _short([json.dumps(wanted).encode()])
            self._write(str(self._rank), "positions", {"ids": ids})
            self._add(str(self._rank), "samples", samples)

    def _before_forward(self) -> None:
        import numpy as np
        import torch

        if not self._is_on:
            return
        self._add(str(self._rank), "buffers", dict(self._model.named_buffers()))
        state: Any = np.random.get_state()
        kind, key, *rest = state
        found = {
            "torch": _short(_head(torch.get_rng_state())),
            "numpy": _short([str(kind).encode(), key.tobytes(), repr(rest).encode()]),
            "python": _short([repr(random.getstate()).encode()]),
        }
        self._write(str(self._rank), "random", found)

    def _gradient(self, name: str, gradient: Any) -> None:
        before = self._gradients.get(name)
        self._gradients[name] = gradient.clone() if before is None else before + gradient

    def _output(self, name: str, module: Any, inputs: Any, output: Any) -> None:
        if self._is_on and hasattr(output, "detach"):
            calls = sum(1 for known in self._outputs if known.split("#")[0] == name)
            self._outputs[f"{name}#{calls}" if calls else name] = output.detach().clone()

    def computed(self, loss: Any) -> None:
        if self._is_on:
            if self._kind == "operators":
                self._add(str(self._rank), "operators", self._outputs)
            self._write(str(self._rank), "loss", {"loss": float(loss).hex()})

    def reduced(self) -> None:
        if not self._is_on:
            return
        self._add(str(self._rank), "gradients", self._gradients)
        self._save(str(self._rank))
        if self._rank == 0:
            named = dict(self._model.named_parameters())
            self._add("all", "reduced", {name: value.grad for name, value in named.items()})

    def updated(self) -> None:
        if not self._is_on or self._rank > 0:
            return
        tensors, values = _optimizer_state(self._model, self._optimizer)
        plain = json.dumps(values, sort_keys=True)
        self._write("all", "optimizer", {"values": _short([plain.encode()])})
        self._add("all", "optimizer", tensors)
        updated = dict(self._model.named_parameters()) | dict(self._model.named_buffers())
        self._add("all", "updated", updated)
        self._save("all")

    def _add(self, worker: str, stage: str, tensors: Mapping[str, Any]) -> None:
        detached = {name: value.detach().contiguous() for name, value in tensors.items()}
        self._write(worker, stage, {n: _short(_head(value)) for n, value in detached.items()})
        if self._kind in ("tensors", "operators"):
            kept = self._tensors.setdefault(worker, {})
            kept |= {f"{stage}/{name}": value.clone() for name, value in detached.items()}

    def _write(self, worker: str, stage: str, found: Mapping[str, str]) -> None:
        entry = {"step": self._step, "stage": stage, "found": found}
        with (self._folder / f"evidence-{worker}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def _save(self, worker: str) -> None:
        from safetensors.torch import save_file

        if tensors := self._tensors.pop(worker, None):
            (self._folder / "evidence").mkdir(exist_ok=True)
            name = f"step-{self._step:08d}-{worker}.safetensors"
            save_file(tensors, self._folder / "evidence" / name)


def _head(tensor: Any) -> list[bytes]:
    import torch

    head = f"{tensor.dtype} {tuple(tensor.shape)}".encode()
    return [head, tensor.reshape(-1).view(torch.uint8).numpy().tobytes()]


def _short(parts: Sequence[bytes]) -> str:
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        state.update(part)
    return state.hexdigest()


def _optimizer_state(model: Any, optimizer: Any) -> tuple[dict[str, Any], list[Any]]:
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
    return tensors, [values, groups]


def _digests(model: Any, optimizer: Any) -> dict[str, str]:
    tensors, values = _optimizer_state(model, optimizer)
    return {
        "digest_parameters": _digest(dict(model.named_parameters())),
        "digest_buffers": _digest(dict(model.named_buffers())),
        "digest_optimizer": _digest(tensors, values),
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

"""Recorder of the evidence of a worker's steps, as ``harness.contracts.evidence`` defines it."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from harness.contracts.evidence import COMMON, Evidence, Stage
from harness.contracts.workload import Batch
from systems.runtime.tensors.state import optimizer_state, parameters_of
from systems.runtime.tensors.tensor_file import write_tensors
from systems.runtime.wire.data_order import DataOrder, Range, epochs_of
from systems.runtime.wire.step_log import LineWriter
from systems.runtime.worker.operator_watch import OperatorWatch

DIGEST_BYTES = 8


class Recorder:
    """Recorder of one process, which may run several logical workers in turn. One thread calls
    it."""

    def __init__(
        self,
        wanted: Evidence,
        job_dir: Path,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        data: DataOrder,
    ) -> None:
        """Hook the model itself, not its wrapper, if any step is wanted.

        Args:
            wanted: steps to record.
            job_dir: folder of the job's logs.
            model: model of the job.
            optimizer: optimizer of the model.
            device: device of the job.
            data: order of the samples.
        """
        self._wanted = wanted
        self._job_dir = job_dir
        self._model = model
        self._optimizer = optimizer
        self._device = device
        self._data = data
        self._writers: dict[str, LineWriter] = {}
        self._step = 0
        self._is_on = False
        self._expects_forward = False
        self._worker = COMMON
        self._tensors: dict[str, dict[str, torch.Tensor]] = {}
        """Tensors to keep, by worker."""
        self._gradients: dict[str, torch.Tensor] = {}
        self._operators: OperatorWatch | None = None
        if wanted.last_step >= wanted.first_step:
            self._listen()

    def _listen(self) -> None:
        self._model.register_forward_pre_hook(self._before_forward)
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad:
                parameter.register_hook(partial(self._on_gradient, name))  # type: ignore[no-untyped-call]
        if self._wanted.operators:
            self._operators = OperatorWatch(self._model)

    def begin_step(self, step: int, *, is_first: bool) -> None:
        """Begin a step, before its first forward pass.

        Args:
            step: number of steps executed so far.
            is_first: true if this process records what all workers have in common.
        """
        self._step = step + 1
        self._is_on = self._wanted.first_step <= self._step <= self._wanted.last_step
        if self._is_on and is_first:
            self._add(COMMON, Stage.PARAMETERS, dict(self._model.named_parameters()))

    def begin_worker(self, worker: int, batch: Batch, ranges: Sequence[Range]) -> None:
        """Begin a worker's turn, before its forward pass; ``ranges`` are the data that ``batch``
        holds."""
        if not self._is_on:
            return
        self._worker = str(worker)
        if self._operators is not None:
            self._operators.begin()
        self._gradients.clear()
        wanted = json.dumps([self._data.ids(ranges), epochs_of(ranges)])
        self._write(self._worker, Stage.POSITIONS, {"ids": _digest_bytes([wanted.encode()])})
        tensors = {k: v for k, v in batch.items() if isinstance(v, torch.Tensor)}
        self._add(self._worker, Stage.SAMPLES, tensors)
        self._expects_forward = True

    def _before_forward(self, module: torch.nn.Module, inputs: Any) -> None:
        """Record buffers and random states. DistributedDataParallel has broadcast the buffers
        already."""
        if not self._expects_forward:
            return
        self._expects_forward = False
        self._add(self._worker, Stage.BUFFERS, dict(self._model.named_buffers()))
        self._write(self._worker, Stage.RANDOM, random_digests(self._device))

    def before_backward(self, loss: torch.Tensor) -> None:
        """Prepare for a backward pass of the workload's own loss."""
        if self._operators is not None:
            self._operators.before_backward(loss)

    def after_forward(self, loss: torch.Tensor) -> None:
        """Record the loss of a worker's whole step, after its last forward pass."""
        if not self._is_on:
            return
        if self._operators is not None:
            self._add(self._worker, Stage.OPERATORS, self._operators.forward)
        self._write(self._worker, Stage.LOSS, {"loss": float(loss.detach()).hex()})

    def end_worker(self) -> None:
        """Record a worker's gradients, after its last backward pass."""
        if not self._is_on:
            return
        if self._operators is not None:
            self._add(self._worker, Stage.BACKWARD, self._operators.backward)
            self._operators.end()
        self._add(self._worker, Stage.GRADIENTS, self._gradients)
        self._save(self._worker)

    def reduced(self, layout: Sequence[Sequence[int]]) -> None:
        """Record the reduced gradients; only the process that records for all calls it.

        Args:
            layout: indices of parameters in the order of the optimizer's groups, by bucket; empty
                if it is not known.
        """
        if not self._is_on:
            return
        names = {id(value): name for name, value in self._model.named_parameters()}
        known = [names[id(parameter)] for parameter in parameters_of(self._optimizer)]
        buckets = [",".join(known[index] for index in bucket) for bucket in layout]
        self._write(COMMON, Stage.LAYOUT, {f"bucket {n}": text for n, text in enumerate(buckets)})
        gradients = {
            name: value.grad
            for name, value in self._model.named_parameters()
            if value.grad is not None
        }
        self._add(COMMON, Stage.REDUCED, gradients)

    def committed(self) -> None:
        """Record the update; only the process that records for all calls it."""
        if not self._is_on:
            return
        state = optimizer_state(self._optimizer)
        plain = json.dumps([state.values, state.groups], sort_keys=True)
        self._write(COMMON, Stage.OPTIMIZER, {"values": _digest_bytes([plain.encode()])})
        self._add(COMMON, Stage.OPTIMIZER, dict(state.tensors))
        updated = dict(self._model.named_parameters()) | dict(self._model.named_buffers())
        self._add(COMMON, Stage.UPDATED, updated)
        self._save(COMMON)

    def flush(self) -> None:
        """Write out what the disk had no room for before.

        Raises:
            OSError: the disk still has no room.
        """
        for writer in self._writers.values():
            writer.flush()

    def _on_gradient(self, name: str, gradient: torch.Tensor) -> None:
        if self._is_on:
            before = self._gradients.get(name)
            own = gradient.detach()
            self._gradients[name] = own.clone() if before is None else before + own

    def _add(self, worker: str, stage: Stage, tensors: Mapping[str, torch.Tensor]) -> None:
        detached = {name: value.detach().cpu() for name, value in tensors.items()}
        self._write(worker, stage, {name: digest(value) for name, value in detached.items()})
        if self._wanted.tensors:
            for name, value in detached.items():
                kept = self._tensors.setdefault(worker, {})
                kept[f"{stage}/{name}"] = value.contiguous().clone()

    def _write(self, worker: str, stage: Stage, found: Mapping[str, str]) -> None:
        if worker not in self._writers:
            path = self._job_dir / f"evidence-{worker}.jsonl"
            # At once, so that a killed worker leaves all that it has recorded.
            self._writers[worker] = LineWriter(path, at_once=True)
        self._writers[worker].add({"step": self._step, "stage": stage.value, "found": found})

    def _save(self, worker: str) -> None:
        """Keep the tensors of this worker's step, if that is wanted."""
        tensors = self._tensors.pop(worker, None)
        if not tensors:
            return
        folder = self._job_dir / "evidence"
        folder.mkdir(exist_ok=True)
        path = folder / f"step-{self._step:08d}-{worker}.safetensors"
        write_tensors(path, tensors).replace(path)


def random_digests(device: torch.device) -> dict[str, str]:
    """Return digests of all random states of this process."""
    kind, key, *rest = cast(tuple[Any, ...], np.random.get_state())
    found = {
        "torch": digest(torch.get_rng_state()),
        "numpy": _digest_bytes([str(kind).encode(), key.tobytes(), repr(rest).encode()]),
        "python": _digest_bytes([repr(random.getstate()).encode()]),
    }
    if device.type == "cuda":
        found["device"] = digest(torch.cuda.get_rng_state(device))
    return found


def digest(tensor: torch.Tensor) -> str:
    """Return the BLAKE2b digest of a tensor's type, shape and bytes."""
    tensor = tensor.detach().cpu().contiguous()
    head = f"{tensor.dtype} {tuple(tensor.shape)}".encode()
    return _digest_bytes([head, tensor.reshape(-1).view(torch.uint8).numpy().tobytes()])


def _digest_bytes(parts: Iterable[bytes]) -> str:
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        state.update(part)
    return state.hexdigest()

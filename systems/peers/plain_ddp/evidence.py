"""Evidence of a worker of the script, stage by stage, and digests of its final state."""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any


class Evidence:
    """Evidence of one worker, in the format of ``harness.contracts.evidence``."""

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
        """Begin a step: record the parameters before it, and the worker's sample ids and
        samples."""
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
        """Record the loss, after the forward pass and before the backward pass."""
        if self._is_on:
            if self._kind == "operators":
                self._add(str(self._rank), "operators", self._outputs)
            self._write(str(self._rank), "loss", {"loss": float(loss).hex()})

    def reduced(self) -> None:
        """Record the gradients, after their sum over the workers."""
        if not self._is_on:
            return
        self._add(str(self._rank), "gradients", self._gradients)
        self._save(str(self._rank))
        if self._rank == 0:
            named = dict(self._model.named_parameters())
            self._add("all", "reduced", {name: value.grad for name, value in named.items()})

    def updated(self) -> None:
        """Record the state after the optimizer's step."""
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


def digests(model: Any, optimizer: Any) -> dict[str, str]:
    """Return digests of parameters, buffers and optimizer state, in the format of a job's
    record."""
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

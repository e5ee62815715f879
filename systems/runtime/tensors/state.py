"""State of a training job as named tensors and plain values, and its digest.

Parameters and buffers have the names of their modules. Optimizer state is named by its key and by
the index of its parameter in the order of the optimizer's groups.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class OptimizerState:
    """An optimizer's state in two parts: tensors, and values that JSON can hold."""

    tensors: Mapping[str, torch.Tensor]
    """Tensors by ``INDEX/KEY``."""
    values: Mapping[str, Mapping[str, Any]]
    """All other state, by parameter index, then key."""
    groups: list[dict[str, Any]]
    """Hyper-parameters of every parameter group."""


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """Return all parameters in the order of the optimizer's groups."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def optimizer_state(optimizer: torch.optim.Optimizer) -> OptimizerState:
    """Return the state of an optimizer; tensors are not copied.

    Raises:
        TypeError: a hyper-parameter or a state value is neither a tensor nor plain.
    """
    tensors: dict[str, torch.Tensor] = {}
    values: dict[str, dict[str, Any]] = {}
    for index, parameter in enumerate(parameters_of(optimizer)):
        for key, value in sorted(optimizer.state.get(parameter, {}).items()):
            if isinstance(value, torch.Tensor):
                tensors[f"{index}/{key}"] = value
            else:
                values.setdefault(str(index), {})[key] = _plain(value, f"state {key!r}")
    return OptimizerState(tensors, values, hyper_parameters(optimizer))


def hyper_parameters(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the hyper-parameters of every parameter group in a form that JSON can hold.

    Raises:
        TypeError: a hyper-parameter is not plain.
    """
    return [
        {
            key: _plain(value, f"hyper-parameter {key!r}")
            for key, value in group.items()
            if key != "params"
        }
        for group in optimizer.param_groups
    ]


def _plain(value: Any, what: str) -> Any:
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        raise TypeError(
            f"the optimizer's {what} is a {type(value).__name__}, which cannot be saved or"
            " compared; keep it a number, a text, a list of those, or (state only) a tensor"
        ) from None


def digest(tensors: Mapping[str, torch.Tensor], values: Any = None) -> str:
    """Return the BLAKE2b digest of named tensors (name, type, shape, bytes; by name) and plain
    values."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    # docs/reference/bits.md specifies this format, by which digests on record are compared.
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    if values is not None:
        state.update(json.dumps(values, sort_keys=True).encode())
    return state.hexdigest()


def digests(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """Return ``digest_parameters``, ``digest_buffers`` and ``digest_optimizer`` of a job."""
    state = optimizer_state(optimizer)
    return {
        "digest_parameters": digest(dict(model.named_parameters())),
        "digest_buffers": digest(dict(model.named_buffers())),
        "digest_optimizer": digest(state.tensors, [state.values, state.groups]),
    }

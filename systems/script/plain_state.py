"""State of a script's objects as JSON values, with the types that JSON does not have.

A ``MultiStepLR`` keeps a ``Counter`` by step number. JSON alone would return a dictionary by texts,
and the learning rate would never change again, without any error.
"""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import torch

from systems.script.errors import ScriptError

MAX_TENSOR_BYTES = 1 << 16
"""Most bytes of a tensor that is sent as text.

A larger tensor belongs in a module, whose tensors are sent as bytes.
"""


def encode(value: Any, what: str) -> Any:
    """Return a value as JSON can hold it; ``decode`` returns an equal one of the same types.

    Args:
        value: numbers, texts, None, small tensors, and lists, tuples, dictionaries and counters of
            these.
        what: the name of the value, for the error.

    Raises:
        ScriptError: the value holds something else.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(item, what) for item in value]}
    if isinstance(value, dict):
        kind = "counter" if isinstance(value, Counter) else "dict"
        return {kind: [[encode(k, what), encode(v, what)] for k, v in value.items()]}
    if isinstance(value, torch.Tensor):
        return {"tensor": _encode_tensor(value, what)}
    if isinstance(value, int | float) or type(value).__module__ == "numpy":
        return encode(_number(value, what), what)
    raise ScriptError(
        f"{what} is a {type(value).__name__}, which cannot travel to a worker that joins; keep it"
        " a number, a text, a small tensor, or a list, tuple or dictionary of these"
    )


def decode(value: Any) -> Any:
    """Return the value that ``encode`` was given.

    Raises:
        ValueError: ``encode`` did not make this.
    """
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ValueError(f"a state of the kinds {sorted(value)}")
    ((kind, content),) = value.items()
    match kind:
        case "list":
            return [decode(item) for item in content]
        case "tuple":
            return tuple(decode(item) for item in content)
        case "dict" | "counter":
            pairs = {decode(key): decode(item) for key, item in content}
            return Counter(pairs) if kind == "counter" else pairs
        case "tensor":
            return _decode_tensor(*content)
    raise ValueError(f"a state of the kind {kind!r}")


def _number(value: Any, what: str) -> bool | int | float:
    """Return an instance of a number's subclass, or a scalar of NumPy, as Python's own number."""
    plain = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    for kind in (bool, int, float):
        if isinstance(plain, kind):
            return kind(plain)
    raise ScriptError(f"{what} is an array of NumPy, which cannot travel; keep it a tensor")


def _encode_tensor(tensor: torch.Tensor, what: str) -> list[Any]:
    num_bytes = tensor.numel() * tensor.element_size()
    if num_bytes > MAX_TENSOR_BYTES:
        raise ScriptError(
            f"{what} is a tensor of {num_bytes:,} bytes, and {MAX_TENSOR_BYTES:,} are the most;"
            " make it a buffer of an nn.Module and carry the module"
        )
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return [dtype, list(tensor.shape), str(tensor.device), base64.b64encode(data).decode()]


def _decode_tensor(dtype: str, shape: list[int], device: str, data: str) -> torch.Tensor:
    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"a tensor of the type {dtype!r}")
    memory = torch.frombuffer(bytearray(base64.b64decode(data)) or bytearray(1), dtype=torch.uint8)
    if not data:
        return torch.empty(shape, dtype=found, device=device)
    return memory.view(found).reshape(shape).to(device)

"""The random states of one process: of torch on the CPU and the device, of Python and of NumPy.

Source: EasyScale (Li et al., SC '23), section 3.1: the context of a virtual worker. To read and
write NumPy's in the usual way takes 200 us of every turn, so its memory is copied where that is
enough.
"""

from __future__ import annotations

import ctypes
import random
import struct
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

_NUMPY_BYTES = 624 * 4 + 4
"""Key and position of its Mersenne Twister."""
_PYTHON = struct.Struct("<625I?d")
_GAUSS = struct.Struct("<?d")


@dataclass(frozen=True, slots=True)
class RandomStates:
    """All random states at one moment. Immutable, while whoever gave memory to read them into
    leaves it alone."""

    torch_cpu: torch.Tensor
    torch_device: torch.Tensor | None
    python: tuple[Any, ...]
    numpy_bits: bytes
    numpy_gauss: float | None
    """A number that NumPy has drawn already and not given yet."""

    def to_bytes(self) -> bytes:
        """As bytes; always as many for the same device."""
        _, numbers, gauss = self.python
        on_device = b"" if self.torch_device is None else _bytes(self.torch_device)
        return b"".join(
            (
                self.numpy_bits,
                _GAUSS.pack(self.numpy_gauss is not None, self.numpy_gauss or 0.0),
                _PYTHON.pack(*numbers, gauss is not None, gauss or 0.0),
                _bytes(self.torch_cpu),
                on_device,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes, num_device_bytes: int) -> RandomStates:
        """What ``to_bytes`` gave."""
        numpy_bits, at = data[:_NUMPY_BYTES], _NUMPY_BYTES
        has_gauss, gauss = _GAUSS.unpack_from(data, at)
        at += _GAUSS.size
        *numbers, python_has_gauss, python_gauss = _PYTHON.unpack_from(data, at)
        at += _PYTHON.size
        end = len(data) - num_device_bytes
        on_device = _tensor(data[end:]) if num_device_bytes else None
        return cls(
            torch_cpu=_tensor(data[at:end]),
            torch_device=on_device,
            python=(3, tuple(numbers), python_gauss if python_has_gauss else None),
            numpy_bits=numpy_bits,
            numpy_gauss=gauss if has_gauss else None,
        )


class ProcessRandom:
    """Reads and writes the random states of this process, by one thread."""

    def __init__(self, device: torch.device) -> None:
        """Args: ``device``: of the job."""
        self._device = device if device.type == "cuda" else None
        self.num_device_bytes = self._on_device().numel() if self._device is not None else 0
        bits = np.random.get_bit_generator()  # type: ignore[attr-defined]
        self._address = cast(int, bits.ctypes.state_address)
        self._empty: bytes | None = None
        """NumPy's bits with which it is known to keep no number: by what was done last."""

    def read(
        self, before: RandomStates | None = None, into: torch.Tensor | None = None
    ) -> RandomStates:
        """The states as they are. What did not change since ``before`` is shared with it.

        Args:
            before: those that were written last, if any.
            into: memory for torch's on the CPU; None: new memory.
        """
        bits = ctypes.string_at(self._address, _NUMPY_BYTES)
        unused = before is not None and before.numpy_gauss is None and before.numpy_bits == bits
        gauss = None if unused else _numpy_gauss()
        self._empty = bits if gauss is None else None
        torch_cpu, python = torch.default_generator.get_state(), random.getstate()
        if into is not None:
            torch_cpu = into.copy_(torch_cpu)
        if before is not None:
            bits = before.numpy_bits if bits == before.numpy_bits else bits
            python = before.python if python == before.python else python
        return RandomStates(
            torch_cpu=torch_cpu,
            torch_device=None if self._device is None else self._on_device(),
            python=python,
            numpy_bits=bits,
            numpy_gauss=gauss,
        )

    def write(self, states: RandomStates) -> None:
        """Make the states these."""
        torch.default_generator.set_state(states.torch_cpu)
        if self._device is not None and states.torch_device is not None:
            torch.cuda.set_rng_state(states.torch_device, self._device)
        random.setstate(states.python)
        bits = ctypes.string_at(self._address, _NUMPY_BYTES)
        if self._empty != bits or states.numpy_gauss is not None:  # somebody may have drawn
            found = cast(tuple[Any, ...], np.random.get_state())
            has_gauss = states.numpy_gauss is not None
            np.random.set_state((*found[:3], int(has_gauss), states.numpy_gauss or 0.0))
        ctypes.memmove(self._address, states.numpy_bits, _NUMPY_BYTES)
        self._empty = states.numpy_bits if states.numpy_gauss is None else None

    def _on_device(self) -> torch.Tensor:
        assert self._device is not None
        return torch.cuda.get_rng_state(self._device)


def _numpy_gauss() -> float | None:
    *_, has_gauss, gauss = cast(tuple[Any, ...], np.random.get_state())
    return float(gauss) if has_gauss else None


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.numpy().tobytes()


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)

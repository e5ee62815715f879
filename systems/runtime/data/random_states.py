"""Random states of one process: torch's on the CPU and the device, Python's and NumPy's.

Source: EasyScale (Li et al., SC '23), section 3.1: the context of a virtual worker. Reading and
writing NumPy's state in the usual way takes 200 us of every turn, so its memory is copied if that
is enough. Python's is copied too (``python_random.py``).
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from systems.runtime.data.python_random import POSITION_BYTES, STATE_BYTES, PythonRandom

_NUMPY_BYTES = 624 * 4 + 4
"""Size of the key and the position of NumPy's Mersenne Twister."""
_GAUSS = struct.Struct("<?d")


@dataclass(frozen=True, slots=True)
class RandomStates:
    """All random states at one moment.

    The object is immutable, as long as the memory that was given for reading is not changed.
    """

    torch_cpu: torch.Tensor
    torch_device: torch.Tensor | None
    python_bits: bytes
    python_gauss: float | None
    """Number that Python has drawn but not returned yet."""
    numpy_bits: bytes
    numpy_gauss: float | None
    """Number that NumPy has drawn but not returned yet."""

    def to_bytes(self) -> bytes:
        """Return the states as bytes; their number is constant for a device."""
        on_device = b"" if self.torch_device is None else _bytes(self.torch_device)
        return b"".join(
            (
                self.numpy_bits,
                _gauss_bytes(self.numpy_gauss),
                self.python_bits[POSITION_BYTES:],  # the order of ``random.getstate``
                self.python_bits[:POSITION_BYTES],
                _gauss_bytes(self.python_gauss),
                _bytes(self.torch_cpu),
                on_device,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes, num_device_bytes: int) -> RandomStates:
        """Return the states that ``to_bytes`` described."""
        python_at = _NUMPY_BYTES + _GAUSS.size
        position_at = python_at + STATE_BYTES - POSITION_BYTES
        gauss_at = python_at + STATE_BYTES
        torch_at = gauss_at + _GAUSS.size
        end = len(data) - num_device_bytes
        return cls(
            torch_cpu=_tensor(data[torch_at:end]),
            torch_device=_tensor(data[end:]) if num_device_bytes else None,
            python_bits=data[position_at:gauss_at] + data[python_at:position_at],
            python_gauss=_gauss(data, gauss_at),
            numpy_bits=data[:_NUMPY_BYTES],
            numpy_gauss=_gauss(data, _NUMPY_BYTES),
        )


class ProcessRandom:
    """Reader and writer of the random states of this process. Only one thread may use it."""

    def __init__(self, device: torch.device) -> None:
        """Find the states of this process. Args: ``device``: device of the job."""
        self._device = device if device.type == "cuda" else None
        self.num_device_bytes = self._on_device().numel() if self._device is not None else 0
        self._python = PythonRandom()
        bits = np.random.get_bit_generator()  # type: ignore[attr-defined]
        self._address = cast(int, bits.ctypes.state_address)
        self._empty: bytes | None = None
        """NumPy's bits for which it is known to keep no number, from the last read or write."""

    def read(
        self, before: RandomStates | None = None, into: torch.Tensor | None = None
    ) -> RandomStates:
        """Return the present states, which share unchanged parts with ``before``.

        Args:
            before: states that were written last, if any.
            into: memory for torch's state on the CPU; None: new memory.
        """
        bits = ctypes.string_at(self._address, _NUMPY_BYTES)
        # If nothing was drawn since the last write, NumPy keeps no number; to ask it is slow.
        unused = before is not None and before.numpy_gauss is None and before.numpy_bits == bits
        gauss = None if unused else _numpy_gauss()
        self._empty = bits if gauss is None else None
        torch_cpu, python_bits = torch.default_generator.get_state(), self._python.read()
        if into is not None:
            torch_cpu = into.copy_(torch_cpu)
        if before is not None:
            bits = before.numpy_bits if bits == before.numpy_bits else bits
            if python_bits == before.python_bits:
                python_bits = before.python_bits
        return RandomStates(
            torch_cpu=torch_cpu,
            torch_device=None if self._device is None else self._on_device(),
            python_bits=python_bits,
            python_gauss=self._python.gauss,
            numpy_bits=bits,
            numpy_gauss=gauss,
        )

    def write(self, states: RandomStates) -> None:
        """Set the states."""
        torch.default_generator.set_state(states.torch_cpu)
        if self._device is not None and states.torch_device is not None:
            torch.cuda.set_rng_state(states.torch_device, self._device)
        self._python.write(states.python_bits, states.python_gauss)
        bits = ctypes.string_at(self._address, _NUMPY_BYTES)
        # The number that NumPy keeps for ``normal`` lies outside the memory that is copied below.
        # Unless it is known to be absent, it is set in the slow way: a number that other code has
        # left would otherwise get into this worker's draws.
        if self._empty != bits or states.numpy_gauss is not None:  # other code may have drawn
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


def _gauss_bytes(number: float | None) -> bytes:
    return _GAUSS.pack(number is not None, number or 0.0)


def _gauss(data: bytes, at: int) -> float | None:
    is_there, number = _GAUSS.unpack_from(data, at)
    return number if is_there else None


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.numpy().tobytes()


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)

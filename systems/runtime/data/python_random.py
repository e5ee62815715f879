"""State of Python's ``random`` in this process, as bytes.

``random.getstate`` makes 625 numbers and ``setstate`` reads them, which takes 20 us of every turn.
CPython has them in one block of memory behind the head of the generator's object, from which they
are copied here. If they are not found there, ``getstate`` is used.
"""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from typing import Any, cast

STATE_BYTES = 625 * 4
"""Size of the position and the key of Python's Mersenne Twister, in CPython's order."""
POSITION_BYTES = 4
_KEY_WORDS = 624
_WORDS = struct.Struct("=625I")


class PythonRandom:
    """Reader and writer of the state. The number that ``gauss`` keeps is separate."""

    def __init__(self) -> None:
        self._generator: Any = random.random.__self__  # type: ignore[attr-defined]
        self._address: int | None = None
        address = id(self._generator) + object.__basicsize__
        has_room = type(self._generator).__basicsize__ >= object.__basicsize__ + STATE_BYTES
        # Compared with what Python itself says: another CPython may have another layout.
        if has_room and ctypes.string_at(address, STATE_BYTES) == self.read():
            self._address = address

    @property
    def gauss(self) -> float | None:
        """Number that ``gauss`` has drawn but not returned yet, or None."""
        return cast("float | None", self._generator.gauss_next)

    def read(self) -> bytes:
        """Return position and key."""
        if self._address is not None:
            return ctypes.string_at(self._address, STATE_BYTES)
        _, (*key, position), _ = self._generator.getstate()
        return _WORDS.pack(position, *key)

    def write(self, state: bytes, gauss: float | None) -> None:
        """Set a state that ``read`` returned, and the number that ``gauss`` keeps.

        Raises:
            ValueError: the bytes are not a state.
        """
        position = int.from_bytes(state[:POSITION_BYTES], sys.byteorder)
        if len(state) != STATE_BYTES or position > _KEY_WORDS:
            raise ValueError("no state of Python's random numbers")
        if self._address is not None:
            ctypes.memmove(self._address, state, STATE_BYTES)
            self._generator.gauss_next = gauss
            return
        _, *key = _WORDS.unpack(state)
        self._generator.setstate((3, (*key, position), gauss))

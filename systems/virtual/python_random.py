"""The state of Python's ``random`` in this process, as bytes.

``random.getstate`` makes 625 numbers, and ``setstate`` reads them: 20 us of every turn. CPython has
them in one piece of memory, behind the head of the generator's object, and there they are copied;
where they are not found in it, they are asked for.
"""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from typing import Any, cast

STATE_BYTES = 625 * 4
"""The position, and then the key, of its Mersenne Twister, as CPython has them."""
POSITION_BYTES = 4
_KEY_WORDS = 624
_WORDS = struct.Struct("=625I")


class PythonRandom:
    """Reads and writes the state, but for the number that ``gauss`` keeps, which stands alone."""

    def __init__(self) -> None:
        self._generator: Any = random.random.__self__  # type: ignore[attr-defined]
        self._address: int | None = None
        address = id(self._generator) + object.__basicsize__
        has_room = type(self._generator).__basicsize__ >= object.__basicsize__ + STATE_BYTES
        if has_room and ctypes.string_at(address, STATE_BYTES) == self.read():
            self._address = address

    @property
    def is_copied(self) -> bool:
        """Whether its memory is copied."""
        return self._address is not None

    @property
    def gauss(self) -> float | None:
        """A number that ``gauss`` has drawn already and not given yet."""
        return cast("float | None", self._generator.gauss_next)

    def read(self) -> bytes:
        """Position and key."""
        if self._address is not None:
            return ctypes.string_at(self._address, STATE_BYTES)
        _, (*key, position), _ = self._generator.getstate()
        return _WORDS.pack(position, *key)

    def write(self, state: bytes, gauss: float | None) -> None:
        """Go on from a state that ``read`` gave, with this number kept.

        Raises:
            ValueError: it is no state.
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

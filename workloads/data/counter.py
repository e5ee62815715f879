"""Random numbers addressed by (seed, stream, id, position), without any state.

A generator with a state would have to be advanced to the position of each sample. Here every number
is a hash of its address instead. Any sample can therefore be computed alone, in any order, with the
same bits on every platform. The hash is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA
'14), applied once per level of the address.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

_STEP = np.uint64(0x9E3779B97F4A7C15)
_WORD = 0xFFFFFFFFFFFFFFFF


def _mix(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def random_words(
    seed: int, stream: str, ids: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.uint64]:
    """Return ``width`` uniform 64-bit words for each id; shape (len(ids), width)."""
    key = _mix(np.array([(seed ^ (zlib.crc32(stream.encode()) << 32)) & _WORD], dtype=np.uint64))
    rows = _mix(key + (ids.astype(np.uint64) + np.uint64(1)) * _STEP)
    columns = np.arange(1, width + 1, dtype=np.uint64) * _STEP
    return _mix(rows[:, None] + columns[None, :])


def random_integers(
    seed: int, stream: str, ids: npt.NDArray[np.int64], width: int, below: int
) -> npt.NDArray[np.int64]:
    """Return uniform integers in 0..below-1 (``below`` at most 2**31); shape (len(ids), width)."""
    high = random_words(seed, stream, ids, width) >> np.uint64(32)
    return ((high * np.uint64(below)) >> np.uint64(32)).astype(np.int64)


def random_floats(
    seed: int, stream: str, ids: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.float32]:
    """Return uniform floats in [-1, 1); shape (len(ids), width)."""
    high = random_words(seed, stream, ids, width) >> np.uint64(40)
    return high.astype(np.float32) / np.float32(2**23) - np.float32(1)

"""Which samples a step consumes: a function of the seed and of the position, nothing else.

A job's samples form one endless sequence: a permutation of all ids for epoch 0, another for
epoch 1, and so on. A *position* is an index into that sequence. A step takes the next
``global_batch`` positions, across the end of an epoch if need be, and its workers take
contiguous slices of them. Since positions count samples, the batch may change at any step.
"""

from __future__ import annotations

import hashlib
import zlib

import numpy as np
import numpy.typing as npt

_STREAM = zlib.crc32(b"data order")


class DataOrder:
    """The sequence of sample ids of one job."""

    def __init__(self, seed: int, num_samples: int) -> None:
        """Args: the job's seed, and the number of samples of an epoch.

        Raises:
            ValueError: an epoch has no samples.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples is {num_samples}; an epoch needs at least 1 sample")
        self._seed = seed
        self._num_samples = num_samples
        self._epochs: dict[int, npt.NDArray[np.int64]] = {}

    def ids(self, start: int, stop: int) -> list[int]:
        """Sample ids at the positions ``start`` to ``stop - 1``."""
        found: list[int] = []
        while start < stop:
            epoch, offset = divmod(start, self._num_samples)
            count = min(stop - start, self._num_samples - offset)
            found += self._epoch(epoch)[offset : offset + count].tolist()
            start += count
        return found

    def _epoch(self, epoch: int) -> npt.NDArray[np.int64]:
        if epoch not in self._epochs:
            while len(self._epochs) > 1:  # a step looks at two epochs at most
                del self._epochs[min(self._epochs)]
            rng = np.random.default_rng([self._seed, _STREAM, epoch])
            self._epochs[epoch] = rng.permutation(self._num_samples)
        return self._epochs[epoch]


def share(global_batch: int, num_workers: int, rank: int) -> tuple[int, int]:
    """Begin and end of a worker's slice of a global batch, relative to the step's position.

    The remainder of the division goes to the first ranks, one sample each.

    Raises:
        ValueError: some worker would have nothing to do.
    """
    if global_batch < num_workers:
        raise ValueError(
            f"a global batch of {global_batch} cannot be shared by {num_workers} workers"
        )
    base, rest = divmod(global_batch, num_workers)
    start = rank * base + min(rank, rest)
    return start, start + base + (rank < rest)


def step_seed(seed: int, step: int, rank: int) -> int:
    """Seed of one worker's random state in one step, 63 bits.

    A hash, since NumPy's own way of mixing seeds would take 24 us of every step.
    """
    name = f"step/{seed}/{step}/{rank}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1

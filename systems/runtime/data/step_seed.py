"""Seed of the random state of one worker in one step."""

from __future__ import annotations

import hashlib

EVERY_RANK = -1
"""Rank of the random state that all workers share between a backward pass and the next batch."""


def step_seed(seed: int, step: int, rank: int) -> int:
    """Return the seed of one worker's random state in one step, 63 bits.

    The seed is a hash, since NumPy's own seed mixing would take 24 us of every step.
    """
    # docs/reference/bits.md specifies this hash: another one would change the bits of every job.
    name = f"step/{seed}/{step}/{rank}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1

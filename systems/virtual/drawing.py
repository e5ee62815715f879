"""Samples that are drawn from the random states of the process that fetches them, as in most data
sets with augmentation: what one loader process does for the virtual worker whose turn it is.

Source: EasyScale (Li et al., SC '23), section 3.2: a shared data worker takes the state that a
virtual worker's own one would have, fetches, and gives the state after back. Whoever fetches can
then be anybody: a batch and the state after it are a function of its samples and the state before.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch

from harness.contracts.training import Batch, Workload
from systems.virtual.random_states import ProcessRandom, RandomStates


def draw(
    workload: Workload,
    process: ProcessRandom,
    ids: Sequence[int],
    epochs: Sequence[int],
    before: bytes,
) -> tuple[Batch, bytes]:
    """Some samples, drawn from ``before``, and the state after; the process is left in it.

    Args:
        workload: whose samples they are.
        process: this one's states, those of the CPU alone.
        ids: of the samples.
        epochs: the epoch of each.
        before: as ``RandomStates.to_bytes``.
    """
    states = RandomStates.from_bytes(before, 0)
    process.write(states)
    batch = workload.samples(ids, epochs)
    return batch, process.read(states).to_bytes()


def first_states(process: ProcessRandom, seed: int, num_loaders: int) -> list[bytes]:
    """What the processes of a torch ``DataLoader`` begin with, whose generator was seeded with
    ``seed``: torch and Python have its number added, NumPy a hash of both. This process's states
    are what they were.

    Source: torch.utils.data (``DataLoader``'s base seed, and "Randomness in multi-process data
    loading"); a test holds this to it.
    """
    outer = process.read()
    generator = torch.Generator().manual_seed(seed)
    base = int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
    found = []
    for loader in range(num_loaders):
        random.seed(base + loader)
        torch.default_generator.manual_seed(base + loader)
        words = [loader, base & 0xFFFFFFFF, base >> 32, 0]
        np.random.seed(np.random.SeedSequence(words).generate_state(4))
        found.append(process.read().to_bytes())
    process.write(outer)
    return found

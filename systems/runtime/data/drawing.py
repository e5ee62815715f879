"""Samples drawn from the random states of the process that fetches them, for virtual workers.

Most data sets with augmentation do so. The functions here do what one loader process does for the
virtual worker whose turn it is.

Source: EasyScale (Li et al., SC '23), section 3.2: a shared data worker takes the state that a
virtual worker's own one would have, fetches, and gives the state after back. A batch and the state
after it depend only on its samples and the state before, so any process can fetch.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch

from harness.contracts.workload import Batch, Workload
from systems.runtime.data.random_states import ProcessRandom, RandomStates


def draw(
    workload: Workload,
    process: ProcessRandom,
    ids: Sequence[int],
    epochs: Sequence[int],
    before: bytes,
) -> tuple[Batch, bytes]:
    """Return samples drawn from ``before`` and the state after, in which the process is left.

    Args:
        workload: source of the samples.
        process: states of this process, those of the CPU alone.
        ids: ids of the samples.
        epochs: epoch of each sample.
        before: state as of ``RandomStates.to_bytes``.
    """
    states = RandomStates.from_bytes(before, 0)
    process.write(states)
    batch = workload.samples(ids, epochs)
    return batch, process.read(states).to_bytes()


def first_states(process: ProcessRandom, seed: int, num_loaders: int) -> list[bytes]:
    """Return the first states of the processes of a torch ``DataLoader`` with this seed.

    Its generator was seeded with ``seed``. Torch and Python add the process's number to the base
    seed; NumPy uses a hash of both. This process's states are restored.

    Source: torch.utils.data (``DataLoader``'s base seed, and "Randomness in multi-process data
    loading"); a test compares this function with it.
    """
    outer = process.read()
    generator = torch.Generator().manual_seed(seed)
    base = int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
    found = []
    for loader in range(num_loaders):
        random.seed(base + loader)
        torch.default_generator.manual_seed(base + loader)
        # The words and their order are those of torch's own worker processes.
        words = [loader, base & 0xFFFFFFFF, base >> 32, 0]
        np.random.seed(np.random.SeedSequence(words).generate_state(4))
        found.append(process.read().to_bytes())
    process.write(outer)
    return found

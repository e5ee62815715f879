"""Speech as spectra with transcripts: synthetic utterances and data sets, by name.

A sample has ``spectrum`` (bins, frames), the number of recorded frames ``num_frames``, ``letters``
(padded with 0) and ``num_letters``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from harness.contracts.workload import Batch
from workloads.data.augmentation import masked_spectrum
from workloads.data.base import DataSet, checked_ids
from workloads.data.counter import random_floats, random_integers
from workloads.data.librispeech import LETTERS, open_librispeech
from workloads.data.synthetic import synthetic_set

NEEDS_ROOT: Mapping[str, bool] = {"synthetic": False, "librispeech": True}
"""Names of the data sets, and whether each reads files below ``root``."""
FRAMES_A_LETTER = 8
_PAUSE = 3
"""Number of silent frames at the end of each letter."""


@dataclass(frozen=True, slots=True)
class SpokenLetters:
    """Consecutive letters, each with a different sound, under noise half as loud."""

    seed: int
    stream: str
    num_samples: int
    num_letters: int
    """Letters of the alphabet."""
    length: int
    """Letters of an utterance."""
    bins: int

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.num_samples

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return ``spectrum``, ``num_frames``, ``letters`` and ``num_letters``; see the module."""
        index = checked_ids(ids, self.num_samples)
        count, frames = len(index), self.length * FRAMES_A_LETTER
        letters = 1 + random_integers(
            self.seed, f"{self.stream} letters", index, self.length, self.num_letters
        )
        sound = random_floats(self.seed, "sound", letters.reshape(-1), self.bins)
        sound = np.repeat(sound.reshape(count, self.length, 1, self.bins), FRAMES_A_LETTER, axis=2)
        sound[:, :, FRAMES_A_LETTER - _PAUSE :] = 0
        noise = random_floats(self.seed, f"{self.stream} noise", index, frames * self.bins)
        spectrum = 2 * sound.reshape(count, frames, self.bins) + noise.reshape(
            count, frames, self.bins
        )
        return {
            "spectrum": torch.from_numpy(np.ascontiguousarray(spectrum.transpose(0, 2, 1))),
            "num_frames": torch.full((count,), frames, dtype=torch.int64),
            "letters": torch.from_numpy(letters),
            "num_letters": torch.full((count,), self.length, dtype=torch.int64),
        }


def open_speech(
    data: str, root: str, bins: int, letters: int, num_samples: int, frames: int, seed: int
) -> DataSet:
    """Open a set of utterances; its ``num_labels`` is the size of the alphabet, without the blank.

    Args:
        data: one of ``NEEDS_ROOT``.
        root: folder of the files, for the sets that need one.
        bins: number of bins of the spectrum.
        letters: number of letters of a synthetic utterance.
        num_samples: number of samples of the synthetic set.
        frames: longest utterance that is read from files.
        seed: seed of the synthetic set.

    Raises:
        DataError: files are missing or malformed.
    """
    if data == "librispeech":
        return open_librispeech(root, bins, frames)
    alphabet = len(LETTERS)
    return synthetic_set(
        lambda stream, count: SpokenLetters(seed, stream, count, alphabet, letters, bins),
        num_samples,
        alphabet,
        masked_spectrum,
    )

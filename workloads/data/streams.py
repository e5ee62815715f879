"""Texts for next-word prediction: synthetic texts and data sets, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from harness.contracts.workload import Batch
from workloads.data.aclimdb import open_aclimdb
from workloads.data.augmentation import blanked
from workloads.data.base import DataSet, checked_ids
from workloads.data.counter import random_integers
from workloads.data.synthetic import synthetic_set
from workloads.data.words import FIRST_WORD, START

NEEDS_ROOT: Mapping[str, bool] = {"synthetic": False, "aclimdb": True}
"""Names of the data sets, and whether each reads files below ``root``."""
_SURPRISES = 5
"""One word in ``_SURPRISES`` is drawn from all words; the others follow from the word before."""
_FACTOR = 3


@dataclass(frozen=True, slots=True)
class PredictableTexts:
    """Texts in which a word nearly always has the same successor.

    Word w is followed by word 3w + 1 (cyclically, among the plain words), or, one time in five, by
    any word. So a model that knows all successors is correct slightly more than four times in five.
    """

    seed: int
    stream: str
    num_samples: int
    vocabulary: int
    length: int
    """Number of words to predict."""

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.num_samples

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return ``tokens`` from START on, ``label`` and ``weight``, all (n, length).

        ``label`` is the word after each token. ``weight`` is 1 if a word counts, as all do here.
        """
        index = checked_ids(ids, self.num_samples)
        num_words = self.vocabulary - FIRST_WORD
        any_word = random_integers(self.seed, f"{self.stream} words", index, self.length, num_words)
        surprise = random_integers(
            self.seed, f"{self.stream} surprises", index, self.length, _SURPRISES
        )
        words = any_word.copy()
        for place in range(1, self.length):
            follows = (_FACTOR * words[:, place - 1] + 1) % num_words
            words[:, place] = np.where(surprise[:, place] == 0, any_word[:, place], follows)
        label = FIRST_WORD + words
        start = np.full((len(index), 1), START)
        tokens = np.concatenate([start, label[:, :-1]], axis=1)
        return {
            "tokens": torch.from_numpy(tokens),
            "label": torch.from_numpy(label),
            "weight": torch.ones(label.shape),
        }


def open_streams(
    data: str, root: str, vocabulary: int, length: int, num_samples: int, seed: int
) -> DataSet:
    """Open a set of texts.

    Args:
        data: one of ``NEEDS_ROOT``.
        root: folder of the files, for the sets that need one.
        vocabulary: number of tokens that the model knows.
        length: number of words to predict in a text.
        num_samples: number of samples of the synthetic set.
        seed: seed of the synthetic set.

    Raises:
        DataError: files are missing or malformed.
    """
    if data == "aclimdb":
        return open_aclimdb(root, vocabulary, length)
    return synthetic_set(
        lambda stream, count: PredictableTexts(seed, stream, count, vocabulary, length),
        num_samples,
        vocabulary,
        blanked("tokens"),
    )

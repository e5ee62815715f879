"""Questions whose answer is a span of a text: synthetic questions and data sets, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from harness.contracts.workload import Batch
from workloads.data.augmentation import blanked
from workloads.data.base import DataSet, checked_ids
from workloads.data.counter import random_integers
from workloads.data.squad import open_squad
from workloads.data.synthetic import synthetic_set
from workloads.data.words import FIRST_WORD, START

NEEDS_ROOT: Mapping[str, bool] = {"synthetic": False, "squad": True}
"""Names of the data sets, and whether each reads files below ``root``."""
_NUM_MARKERS = 8
_LONGEST = 4


@dataclass(frozen=True, slots=True)
class MarkedSpans:
    """Texts with one span that is marked at both ends, easy enough to be learned in seconds.

    A sample is START, an opening word (the question), START, and then other words. These contain
    the opening word once more, and a closing word one to three words later. The answer goes from
    the opening word to the closing word.
    """

    seed: int
    stream: str
    num_samples: int
    vocabulary: int
    length: int
    """Tokens of question and text together."""

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.num_samples

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return ``tokens``, ``segment``, ``mask`` (n, length), and ``start`` and ``end`` (n).

        ``segment`` is 0 for the question and 1 for the text. ``start`` and ``end`` are the first
        and the last token of the answer.
        """
        index = checked_ids(ids, self.num_samples)
        first_plain = FIRST_WORD + 2 * _NUM_MARKERS
        words = first_plain + random_integers(
            self.seed, f"{self.stream} words", index, self.length, self.vocabulary - first_plain
        )
        marker = random_integers(self.seed, f"{self.stream} marker", index, 2, _NUM_MARKERS)
        room = self.length - 2 - _LONGEST
        place = random_integers(self.seed, f"{self.stream} place", index, 1, room)[:, 0] + 3
        more = random_integers(self.seed, f"{self.stream} length", index, 1, _LONGEST - 1)[:, 0]
        rows, end = np.arange(len(index)), place + 1 + more
        words[:, 0] = words[:, 2] = START
        words[:, 1] = words[rows, place] = FIRST_WORD + marker[:, 0]
        words[rows, end] = FIRST_WORD + _NUM_MARKERS + marker[:, 1]
        segment = np.zeros_like(words)
        segment[:, 3:] = 1
        return {
            "tokens": torch.from_numpy(words),
            "segment": torch.from_numpy(segment),
            "mask": torch.ones(words.shape, dtype=torch.int64),
            "start": torch.from_numpy(place),
            "end": torch.from_numpy(end),
        }


def open_spans(
    data: str, root: str, vocabulary: int, length: int, num_samples: int, seed: int
) -> DataSet:
    """Open a set of questions with their texts.

    Args:
        data: one of ``NEEDS_ROOT``.
        root: folder of the files, for the sets that need one.
        vocabulary: number of tokens that the model knows.
        length: tokens of question and text together.
        num_samples: number of samples of the synthetic set.
        seed: seed of the synthetic set.

    Raises:
        DataError: files are missing or malformed.
    """
    if data == "squad":
        return open_squad(root, vocabulary, length)
    return synthetic_set(
        lambda stream, count: MarkedSpans(seed, stream, count, vocabulary, length),
        num_samples,
        length,
        blanked("tokens"),
    )

"""Synthetic tasks that can be learned; every sample depends on (seed, id) alone.

No set is stored in memory: a sample is computed on request. The held-out samples have a different
random stream, but the same rule to learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from harness.contracts.workload import Batch
from workloads.data.augmentation import Augmented, blanked, shifted
from workloads.data.base import DataSet, SampleSet, checked_ids
from workloads.data.counter import random_floats, random_integers, random_words
from workloads.data.pictures import enlarged_to
from workloads.data.words import END, FIRST_WORD, START

HELD_OUT = 512
"""Held-out samples of every synthetic set."""
_COARSE = 8


@dataclass(frozen=True, slots=True)
class SyntheticPictures:
    """Pictures of ``num_classes`` classes: an 8x8 colour pattern per class under noise.

    The pattern depends on the class, and the equally strong noise on the sample.
    """

    seed: int
    stream: str
    num_samples: int
    num_classes: int
    image_size: int
    """Side in pixels."""

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.num_samples

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return ``image`` (n, 3, side, side) and ``label`` (n)."""
        index = checked_ids(ids, self.num_samples)
        cells = 3 * _COARSE * _COARSE
        labels = random_integers(self.seed, f"{self.stream} class", index, 1, self.num_classes)[
            :, 0
        ]
        noise = random_floats(self.seed, f"{self.stream} noise", index, cells)
        values = random_floats(self.seed, "pattern", labels, cells) + noise
        images = torch.from_numpy(values).reshape(-1, 3, _COARSE, _COARSE)
        return {
            "image": enlarged_to(images, self.image_size),
            "label": torch.from_numpy(labels),
        }


@dataclass(frozen=True, slots=True)
class MarkedTexts:
    """Texts whose label is their most frequent marker word.

    Each text starts with START. Three eighths of its other positions have markers: more than half
    of these are the label's marker, and the rest is drawn from all markers. All remaining positions
    have other words.
    """

    seed: int
    stream: str
    num_samples: int
    num_labels: int
    vocabulary: int
    length: int
    """Tokens of a text, START included."""

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.num_samples

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return ``tokens`` (n, length) and ``label`` (n)."""
        index = checked_ids(ids, self.num_samples)
        places = self.length - 1
        num_markers = places * 3 // 8
        first_plain = FIRST_WORD + self.num_labels
        labels = random_integers(self.seed, f"{self.stream} label", index, 1, self.num_labels)
        words = first_plain + random_integers(
            self.seed, f"{self.stream} words", index, places, self.vocabulary - first_plain
        )
        words[:, :num_markers] = FIRST_WORD + random_integers(
            self.seed, f"{self.stream} markers", index, num_markers, self.num_labels
        )
        words[:, : num_markers // 2 + 1] = FIRST_WORD + labels
        order = random_words(self.seed, f"{self.stream} order", index, places).argsort(axis=1)
        start = np.full((len(index), 1), START)
        tokens = np.concatenate([start, np.take_along_axis(words, order, axis=1)], axis=1)
        return {"tokens": torch.from_numpy(tokens), "label": torch.from_numpy(labels[:, 0])}


@dataclass(frozen=True, slots=True)
class MirroredSentences:
    """Pairs of sentences: the target is the source read backwards, with every word shifted.

    A word w becomes the word ``shift`` places after it in the vocabulary (cyclically). The decoder
    must therefore learn an alignment as well as a dictionary.
    """

    seed: int
    stream: str
    num_samples: int
    vocabulary: int
    length: int
    """Words of a sentence; the target has END in addition."""
    shift: int = 7

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.num_samples

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return ``source`` (n, length), ``target`` and ``label`` (n, length+1).

        ``target`` starts with START; ``label`` is the same sentence without START and ends with
        END.
        """
        index = checked_ids(ids, self.num_samples)
        num_words = self.vocabulary - FIRST_WORD
        words = random_integers(self.seed, f"{self.stream} words", index, self.length, num_words)
        target = FIRST_WORD + (words[:, ::-1] + self.shift) % num_words
        start, end = np.full((len(index), 1), START), np.full((len(index), 1), END)
        return {
            "source": torch.from_numpy(FIRST_WORD + words),
            "target": torch.from_numpy(np.concatenate([start, target], axis=1)),
            "label": torch.from_numpy(np.concatenate([target, end], axis=1)),
        }


def synthetic_set(
    drawn: Callable[[str, int], SampleSet], num_samples: int, num_labels: int, augmented: Augmented
) -> DataSet:
    """Return a training set and a held-out set, each ``drawn`` from its own random stream."""
    train, held_out = drawn("train", num_samples), drawn("held out", HELD_OUT)
    return DataSet(train, held_out, num_labels, augmented)


def synthetic_pictures(num_samples: int, num_classes: int, image_size: int, seed: int) -> DataSet:
    """Return training and held-out pictures of the same classes."""
    return synthetic_set(
        lambda stream, count: SyntheticPictures(seed, stream, count, num_classes, image_size),
        num_samples,
        num_classes,
        shifted,
    )


def marked_texts(
    num_samples: int, num_labels: int, vocabulary: int, length: int, seed: int
) -> DataSet:
    """Return training and held-out texts with the same markers."""
    return synthetic_set(
        lambda stream, count: MarkedTexts(seed, stream, count, num_labels, vocabulary, length),
        num_samples,
        num_labels,
        blanked("tokens"),
    )


def mirrored_sentences(num_samples: int, vocabulary: int, length: int, seed: int) -> DataSet:
    """Return training and held-out sentence pairs of the same language."""
    return synthetic_set(
        lambda stream, count: MirroredSentences(seed, stream, count, vocabulary, length),
        num_samples,
        vocabulary,
        blanked("source"),
    )

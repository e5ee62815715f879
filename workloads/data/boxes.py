"""Pictures of objects with their boxes: synthetic pictures and data sets, by name.

A sample has ``image`` (3, side, side), ``boxes`` (things, 4) and ``classes`` (things). A box is
centre and size as shares of the side. The class of an unused entry is -1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from harness.contracts.workload import Batch
from workloads.data.augmentation import mirrored_with_boxes
from workloads.data.base import DataSet, checked_ids
from workloads.data.counter import random_floats, random_integers
from workloads.data.synthetic import synthetic_set
from workloads.data.voc import MAX_THINGS, open_voc

NEEDS_ROOT: Mapping[str, bool] = {"synthetic": False, "voc": True}
"""Names of the data sets, and whether each reads files below ``root``."""
_MOST = 3
_STEPS = 16
"""Grid of places and sizes: whole sixteenths of the side."""


@dataclass(frozen=True, slots=True)
class ColouredBoxes:
    """One to three rectangles on noise, with the class as colour; later rectangles cover earlier
    ones."""

    seed: int
    stream: str
    num_samples: int
    num_classes: int
    image_size: int
    """Side in pixels, a multiple of 16."""

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.num_samples

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return ``image``, ``boxes`` and ``classes`` of the samples; see the module."""
        index = checked_ids(ids, self.num_samples)
        count, side = len(index), self.image_size
        drawn = random_integers(self.seed, f"{self.stream} boxes", index, 5 * _MOST, 1 << 20)
        drawn = drawn.reshape(count, _MOST, 5)
        classes = drawn[:, :, 0] % self.num_classes
        size = 4 + drawn[:, :, 1:3] % (_STEPS // 2 - 3)
        corner = drawn[:, :, 3:5] % (_STEPS - size + 1)
        there = np.arange(_MOST) <= (
            random_integers(self.seed, f"{self.stream} number", index, 1, _MOST)
        )
        noise = random_floats(self.seed, f"{self.stream} noise", index, 3 * side * side)
        images = 0.3 * noise.reshape(count, 3, side, side)
        colours = 1.5 * random_floats(self.seed, "colour", np.arange(self.num_classes), 3)
        pixels = side // _STEPS
        for row in range(count):
            for thing in np.flatnonzero(there[row]):
                (left, top), (width, height) = corner[row, thing], size[row, thing]
                part = images[
                    row,
                    :,
                    top * pixels : (top + height) * pixels,
                    left * pixels : (left + width) * pixels,
                ]
                part += colours[classes[row, thing]][:, None, None]
        boxes = np.concatenate([(corner + size / 2) / _STEPS, size / _STEPS], axis=2)
        return _padded(images, boxes * there[:, :, None], np.where(there, classes, -1))


def _padded(images: np.ndarray, boxes: np.ndarray, classes: np.ndarray) -> Batch:
    count, things = classes.shape
    all_boxes = torch.zeros(count, MAX_THINGS, 4)
    all_boxes[:, :things] = torch.from_numpy(boxes)
    all_classes = torch.full((count, MAX_THINGS), -1, dtype=torch.int64)
    all_classes[:, :things] = torch.from_numpy(classes)
    return {
        "image": torch.from_numpy(images.astype(np.float32)),
        "boxes": all_boxes,
        "classes": all_classes,
    }


def open_boxes(
    data: str, root: str, image_size: int, synthetic: tuple[int, int], seed: int
) -> DataSet:
    """Open a set of pictures with boxes.

    Args:
        data: one of ``NEEDS_ROOT``.
        root: folder of the files, for the sets that need one.
        image_size: side in pixels, a multiple of 32.
        synthetic: samples and classes of the synthetic set.
        seed: seed of the synthetic set.

    Raises:
        DataError: files are missing or malformed.
    """
    if data == "voc":
        return open_voc(root, image_size)
    return synthetic_set(
        lambda stream, count: ColouredBoxes(seed, stream, count, synthetic[1], image_size),
        synthetic[0],
        synthetic[1],
        mirrored_with_boxes,
    )

"""Reader of real handwritten digits: the 1,797 8x8 images that are part of scikit-learn.

Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits (UCI, 1998), the test
part, as shipped by scikit-learn. They are read from the installed package's own file, because
importing scikit-learn takes about as long as importing torch.
"""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from harness.contracts.workload import Batch
from workloads.data.augmentation import shifted
from workloads.data.base import DataError, DataSet, checked_ids
from workloads.data.counter import random_words
from workloads.data.pictures import enlarged_to

NUM_CLASSES = 10
_HELD_OUT = 360
_SIDE = 8
_MEAN, _DEVIATION = 4.884, 6.017
"""Mean and standard deviation of all grey values, which are 0..16."""


def digits_path() -> Path:
    """Return the file of scikit-learn's images: one line per image, 64 grey values and the digit.

    Raises:
        DataError: scikit-learn is not installed, or has the images elsewhere.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError(
            ["digits: scikit-learn is not installed; install it (pip install scikit-learn)"]
        )
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if not path.is_file():
        raise DataError(
            [f"{path}: scikit-learn's digits are not there; install scikit-learn 1.5 or later"]
        )
    return path


def _read() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    with gzip.open(digits_path(), "rt", encoding="ascii") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.float32)
    pictures = (rows[:, :-1] - np.float32(_MEAN)) / np.float32(_DEVIATION)
    return pictures.reshape(-1, 1, _SIDE, _SIDE), rows[:, -1].astype(np.int64)


class _Digits:
    """Digits decoded and enlarged in advance, so that a batch is one gather."""

    def __init__(
        self, pictures: torch.Tensor, labels: torch.Tensor, image_size: int, channels: int
    ) -> None:
        self._pictures, self._labels = pictures, labels
        self._image_size, self._channels = image_size, channels

    def __len__(self) -> int:
        return len(self._labels)

    def samples(self, ids: Sequence[int]) -> Batch:
        index = torch.from_numpy(checked_ids(ids, len(self)))
        pictures = enlarged_to(self._pictures[index], self._image_size)
        return {
            "image": pictures.expand(-1, self._channels, -1, -1).contiguous(),
            "label": self._labels[index],
        }


def open_digits(image_size: int, channels: int, seed: int) -> DataSet:
    """Open the digits: 1,437 to train with and 360 held out, split by ``seed``.

    Args:
        image_size: side in pixels: 8 (unchanged), or 32 and more (enlarged smoothly to 32, then
            by repeating pixels).
        channels: number of channels in which the grey picture is repeated.
        seed: seed of the split.
    """
    pictures, labels = _read()
    order = np.argsort(random_words(seed, "digits split", np.zeros(1, np.int64), len(labels))[0])
    images = torch.from_numpy(pictures)
    if image_size != _SIDE:
        images = torch.nn.functional.interpolate(
            images, size=(32, 32), mode="bilinear", align_corners=False
        )
    parts = [
        _Digits(images[part], torch.from_numpy(labels)[part], image_size, channels)
        for part in (torch.from_numpy(order[_HELD_OUT:]), torch.from_numpy(order[:_HELD_OUT]))
    ]
    return DataSet(parts[0], parts[1], NUM_CLASSES, shifted)

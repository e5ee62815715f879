"""Reader of CIFAR-10 and CIFAR-100 (Krizhevsky 2009) in their binary versions, without pickle.

A record is a label and a picture of 32x32; in CIFAR-100 the label of a group of five classes comes
before the label of the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from harness.contracts.workload import Batch
from workloads.data.augmentation import shifted_and_mirrored
from workloads.data.base import DataError, DataSet, checked_ids
from workloads.data.pictures import enlarged_to, normalised

_SIDE = 32
_PICTURE = 3 * _SIDE * _SIDE


@dataclass(frozen=True, slots=True)
class _Version:
    """One of the two data sets."""

    title: str
    num_classes: int
    num_labels: int
    """Bytes of labels before a picture; the last is the class."""
    folder: str
    archive: str
    train: tuple[str, ...]
    held_out: tuple[str, ...]

    @property
    def record(self) -> int:
        """Bytes of a record."""
        return self.num_labels + _PICTURE

    @property
    def hint(self) -> str:
        """Advice on where to get the data set and where to put it."""
        return (
            f"unpack {self.archive} (the binary version, from "
            "https://www.cs.toronto.edu/~kriz/cifar.html) and set root to the folder where it "
            "was unpacked"
        )


CIFAR10 = _Version(
    "CIFAR-10",
    10,
    1,
    "cifar-10-batches-bin",
    "cifar-10-binary.tar.gz",
    tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    ("test_batch.bin",),
)
CIFAR100 = _Version(
    "CIFAR-100",
    100,
    2,
    "cifar-100-binary",
    "cifar-100-binary.tar.gz",
    ("train.bin",),
    ("test.bin",),
)


def _problem(path: Path, version: _Version) -> str | None:
    if not path.is_file():
        return f"{path}: not found; {version.hint}"
    size, record = path.stat().st_size, version.record
    if size == 0 or size % record:
        labels = "a label" if version.num_labels == 1 else f"{version.num_labels} labels"
        return (
            f"{path}: {size} bytes is not a whole number of {record}-byte records ({labels}"
            f" and a 32x32 colour picture); {version.hint}"
        )
    classes = np.memmap(path, dtype=np.uint8, mode="r")[version.num_labels - 1 :: record]
    highest = int(classes.max())
    if highest >= version.num_classes:
        last = version.num_classes - 1
        return f"{path}: label {highest} is outside 0..{last}; {version.hint}"
    return None


class _Cifar:
    """Records of several files, mapped into memory so that workers share the pages."""

    def __init__(self, paths: Sequence[Path], version: _Version, image_size: int) -> None:
        self._files = [
            np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, version.record) for path in paths
        ]
        self._starts = np.cumsum([0] + [len(file) for file in self._files])
        self._num_labels = version.num_labels
        self._image_size = image_size

    def __len__(self) -> int:
        return int(self._starts[-1])

    def _record(self, sample_id: int) -> npt.NDArray[np.uint8]:
        number = int(np.searchsorted(self._starts, sample_id, side="right")) - 1
        record: npt.NDArray[np.uint8] = self._files[number][sample_id - int(self._starts[number])]
        return record

    def samples(self, ids: Sequence[int]) -> Batch:
        rows = torch.from_numpy(
            np.stack([self._record(int(one)) for one in checked_ids(ids, len(self))])
        )
        images = normalised(rows[:, self._num_labels :]).reshape(-1, 3, _SIDE, _SIDE)
        label = rows[:, self._num_labels - 1].to(torch.int64)
        return {"image": enlarged_to(images, self._image_size), "label": label}


def open_cifar(version: _Version, root: str, image_size: int) -> DataSet:
    """Open a data set below ``root`` (or ``root`` itself): 50,000 to train with, 10,000 held out.

    Args:
        version: ``CIFAR10`` or ``CIFAR100``.
        root: folder with the set's folder or with its ``.bin`` files.
        image_size: side in pixels; pixels are repeated.

    Raises:
        DataError: files are missing or malformed; the error lists all of them.
    """
    below = Path(root) / version.folder
    folder = below if below.is_dir() else Path(root)
    problems = [
        problem
        for name in version.train + version.held_out
        if (problem := _problem(folder / name, version)) is not None
    ]
    if problems:
        raise DataError(problems)
    train, held_out = (
        _Cifar([folder / name for name in names], version, image_size)
        for names in (version.train, version.held_out)
    )
    return DataSet(train, held_out, version.num_classes, shifted_and_mirrored)

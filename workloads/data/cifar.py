"""CIFAR-10 in its binary version (Krizhevsky 2009), which needs no unpickling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from harness.contracts.training import Batch
from workloads.data.base import DataError, DataSet, checked_ids
from workloads.data.pictures import enlarged, normalised

NUM_CLASSES = 10
_SIDE = 32
_RECORD = 1 + 3 * _SIDE * _SIDE
_FOLDER = "cifar-10-batches-bin"
_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
_HELD_OUT = ("test_batch.bin",)
_WAY_OUT = (
    "unpack cifar-10-binary.tar.gz (the binary version, from"
    " https://www.cs.toronto.edu/~kriz/cifar.html) and set root to the folder it was unpacked in"
)


def _problem(path: Path) -> str | None:
    if not path.is_file():
        return f"{path}: not found; {_WAY_OUT}"
    size = path.stat().st_size
    if size == 0 or size % _RECORD:
        return (
            f"{path}: {size} bytes is not a whole number of {_RECORD}-byte records (a label"
            f" and a 32x32 colour picture); {_WAY_OUT}"
        )
    highest = int(np.memmap(path, dtype=np.uint8, mode="r")[::_RECORD].max())
    if highest >= NUM_CLASSES:
        return f"{path}: label {highest} is outside 0..{NUM_CLASSES - 1}; {_WAY_OUT}"
    return None


class _Cifar:
    """Records of several files, mapped into memory so that workers share the pages."""

    def __init__(self, paths: Sequence[Path], factor: int) -> None:
        self._files = [
            np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, _RECORD) for path in paths
        ]
        self._starts = np.cumsum([0] + [len(file) for file in self._files])
        self._factor = factor

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
        images = normalised(rows[:, 1:]).reshape(-1, 3, _SIDE, _SIDE)
        return {"image": enlarged(images, self._factor), "label": rows[:, 0].to(torch.int64)}


def open_cifar10(root: str, image_size: int) -> DataSet:
    """CIFAR-10 below ``root`` (or ``root`` itself): 50,000 to train with, 10,000 held out.

    Args:
        root: folder with ``cifar-10-batches-bin/`` or with its ``.bin`` files.
        image_size: side in pixels, a multiple of 32; pixels are repeated. No augmentation.

    Raises:
        DataError: every file that is missing or has not the right form.
    """
    folder = Path(root) / _FOLDER if (Path(root) / _FOLDER).is_dir() else Path(root)
    problems = [p for name in _TRAIN + _HELD_OUT if (p := _problem(folder / name)) is not None]
    if problems:
        raise DataError(problems)
    train, held_out = (
        _Cifar([folder / name for name in names], image_size // _SIDE)
        for names in (_TRAIN, _HELD_OUT)
    )
    return DataSet(train, held_out, NUM_CLASSES)

"""Pictures in folders named after their class, as ImageNet is usually unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from harness.contracts.workload import Batch
from workloads.data.augmentation import shifted_and_mirrored
from workloads.data.base import DataError, DataSet, checked_ids
from workloads.data.pictures import normalised

_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp"})
_LAYOUT = (
    "root must hold train/CLASS/PICTURE and val/CLASS/PICTURE (ImageNet: https://image-net.org,"
    " unpacked into one folder per class)"
)


class Pictures:
    """Picture files with their labels, decoded on request."""

    def __init__(self, files: Sequence[tuple[Path, int]], image_size: int) -> None:
        """Store the files.

        Args:
            files: in the order of their ids, each with its label.
            image_size: side in pixels.
        """
        self._files = list(files)
        self._image_size = image_size

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self._files)

    def _decoded(self, path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """Return the picture in colour, its shorter side scaled to the size, the middle cut out."""
        side = self._image_size
        try:
            with Image.open(path) as file:
                picture = file.convert("RGB")
        except (OSError, UnidentifiedImageError) as error:
            raise DataError(
                [f"{path}: cannot be read as a picture ({error}); replace or remove it"]
            ) from error
        width, height = picture.size
        scale = side / min(width, height)
        width, height = max(side, round(width * scale)), max(side, round(height * scale))
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        left, top = (width - side) // 2, (height - side) // 2
        return np.asarray(picture.crop((left, top, left + side, top + side)))

    def samples(self, ids: Sequence[int]) -> Batch:
        """Return ``image`` (n, 3, side, side) and ``label`` (n).

        Raises:
            DataError: a file is not a picture.
        """
        chosen = [self._files[one] for one in checked_ids(ids, len(self))]
        bytes_ = torch.from_numpy(np.stack([self._decoded(path) for path, _ in chosen]))
        return {
            "image": normalised(bytes_.permute(0, 3, 1, 2).contiguous()),
            "label": torch.tensor([label for _, label in chosen], dtype=torch.int64),
        }


def _class_names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())


def _files(folder: Path, classes: Sequence[str]) -> list[tuple[Path, int]]:
    return [
        (path, label)
        for label, name in enumerate(classes)
        if (folder / name).is_dir()
        for path in sorted((folder / name).iterdir())
        if path.suffix.lower() in _SUFFIXES
    ]


def open_image_folder(root: str, image_size: int) -> DataSet:
    """Open the pictures below ``root``: ``train/CLASS/`` to train with, ``val/CLASS/`` held out.

    Labels are the class folders in alphabetical order, ids the files in the order of class and file
    name.

    Raises:
        DataError: a folder is missing or has no picture, or ``val`` has a class that ``train``
            lacks. A file that is not a picture is found when it is read.
    """
    train, held_out = Path(root) / "train", Path(root) / "val"
    problems = [
        f"{folder}: not a folder; {_LAYOUT}" for folder in (train, held_out) if not folder.is_dir()
    ]
    if problems:
        raise DataError(problems)
    classes = _class_names(train)
    problems = [
        f"{held_out / name}: class {name!r} is not among the {len(classes)} classes of {train};"
        " add it there, or remove it here"
        for name in _class_names(held_out)
        if name not in classes
    ]
    parts = [_files(folder, classes) for folder in (train, held_out)]
    problems += [
        f"{folder}: no picture in any class folder ({', '.join(sorted(_SUFFIXES))}); {_LAYOUT}"
        for folder, files in zip((train, held_out), parts, strict=True)
        if not files
    ]
    if problems:
        raise DataError(problems)
    pictures = [Pictures(files, image_size) for files in parts]
    return DataSet(pictures[0], pictures[1], len(classes), shifted_and_mirrored)

"""Reader of PASCAL VOC 2007 and 2012 (Everingham et al. 2010): pictures with objects of 20
classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from harness.contracts.workload import Batch
from workloads.data.augmentation import mirrored_with_boxes
from workloads.data.base import DataError, DataSet, checked_ids
from workloads.data.pictures import normalised

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa",
    "train", "tvmonitor",
)  # fmt: skip
MAX_THINGS = 20
"""Largest number of objects of a picture; beyond it the smallest objects are left out."""
_TRAIN = (("VOC2007", "trainval"), ("VOC2012", "trainval"))
_HELD_OUT = (("VOC2007", "test"),)
_WAY_OUT = (
    "unpack the VOC2007 trainval and test archives, and VOC2012's trainval if you want it"
    " (http://host.robots.ox.ac.uk/pascal/VOC), and set root to the folder that holds VOCdevkit/"
)
_MAX_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class _Picture:
    path: Path
    boxes: tuple[tuple[float, float, float, float], ...]
    """Centre and size, as shares of the picture's sides."""
    classes: tuple[int, ...]


class _Pictures:
    """Pictures stretched to squares, decoded on request."""

    def __init__(self, pictures: Sequence[_Picture], image_size: int) -> None:
        self._pictures = list(pictures)
        self._image_size = image_size

    def __len__(self) -> int:
        return len(self._pictures)

    def samples(self, ids: Sequence[int]) -> Batch:
        chosen = [self._pictures[one] for one in checked_ids(ids, len(self))]
        pixels = torch.from_numpy(np.stack([self._decoded(picture.path) for picture in chosen]))
        boxes = torch.zeros(len(chosen), MAX_THINGS, 4)
        classes = torch.full((len(chosen), MAX_THINGS), -1, dtype=torch.int64)
        for row, picture in enumerate(chosen):
            count = len(picture.classes)
            boxes[row, :count] = torch.tensor(picture.boxes)
            classes[row, :count] = torch.tensor(picture.classes)
        image = normalised(pixels.permute(0, 3, 1, 2).contiguous())
        return {"image": image, "boxes": boxes, "classes": classes}

    def _decoded(self, path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        side = self._image_size
        try:
            with Image.open(path) as file:
                return np.asarray(
                    file.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
                )
        except (OSError, UnidentifiedImageError) as error:
            raise DataError(
                [f"{path}: cannot be read as a picture ({error}); unpack it again"]
            ) from error


def open_voc(root: str, image_size: int) -> DataSet:
    """Open VOC below ``root``: 2007 and, if present, 2012 to train with; 2007's test held out.

    Objects marked as difficult are left out, and so are pictures without other objects.

    Args:
        root: folder with ``VOCdevkit/`` or with ``VOC2007/``.
        image_size: side in pixels; pictures are stretched to it.

    Raises:
        DataError: a list, a picture or a description is missing or malformed.
    """
    folder = Path(root) / "VOCdevkit" if (Path(root) / "VOCdevkit").is_dir() else Path(root)
    problems: list[str] = []
    parts = []
    for years in (_TRAIN, _HELD_OUT):
        found: list[_Picture] = []
        for year, part in years:
            if year == "VOC2012" and not (folder / year).is_dir():
                continue
            found += _read(folder / year, part, problems)
        parts.append(found)
    if len(problems) > _MAX_PROBLEMS:
        left = len(problems) - _MAX_PROBLEMS
        problems = [*problems[:_MAX_PROBLEMS], f"{folder}: and {left} more problems like these"]
    if problems:
        raise DataError(problems)
    train, held_out = (_Pictures(part, image_size) for part in parts)
    return DataSet(train, held_out, len(CLASSES), mirrored_with_boxes)


def _read(folder: Path, part: str, problems: list[str]) -> list[_Picture]:
    listed = folder / "ImageSets" / "Main" / f"{part}.txt"
    if not listed.is_file():
        problems.append(f"{listed}: not found; {_WAY_OUT}")
        return []
    found = []
    before = len(problems)
    for number, line in enumerate(listed.read_text(encoding="utf-8").split("\n"), 1):
        name = line.strip()
        if not name:
            continue
        path = folder / "JPEGImages" / f"{name}.jpg"
        if not path.is_file():
            problems.append(f"{listed}:{number}: {path} is not there; {_WAY_OUT}")
            continue
        picture = _picture(path, folder / "Annotations" / f"{name}.xml", problems)
        if picture is not None and picture.classes:
            found.append(picture)
    if not found and len(problems) == before:
        problems.append(f"{listed}: no picture with an object in it; {_WAY_OUT}")
    return found


def _picture(path: Path, described: Path, problems: list[str]) -> _Picture | None:
    try:
        tree = ElementTree.fromstring(described.read_text(encoding="utf-8"))
        width, height = (float(_text(tree, f"size/{side}")) for side in ("width", "height"))
        things = []
        for thing in tree.iter("object"):
            if thing.findtext("difficult", "0").strip() == "1":
                continue
            left, top, right, bottom = (
                float(_text(thing, f"bndbox/{side}")) for side in ("xmin", "ymin", "xmax", "ymax")
            )
            if not (0 <= left < right <= width + 1 and 0 <= top < bottom <= height + 1):
                raise ValueError(f"a box from {left}, {top} to {right}, {bottom}")
            box = (
                (left + right) / 2 / width,
                (top + bottom) / 2 / height,
                (right - left) / width,
                (bottom - top) / height,
            )
            things.append((box, CLASSES.index(_text(thing, "name"))))
    except (OSError, ElementTree.ParseError, ValueError, ZeroDivisionError) as error:
        problems.append(f"{described}: not a description of VOC ({error}); {_WAY_OUT}")
        return None
    things.sort(key=lambda thing: -thing[0][2] * thing[0][3])
    kept = things[:MAX_THINGS]
    return _Picture(path, tuple(box for box, _ in kept), tuple(kind for _, kind in kept))


def _text(element: ElementTree.Element, path: str) -> str:
    found = element.findtext(path)
    if found is None:
        raise ValueError(f"there is no {path}")
    return found.strip()

"""Reader of Food-101 (Bossard et al., ECCV '14): 101 dishes with 750 pictures and 250 held out
each."""

from __future__ import annotations

from pathlib import Path

from workloads.data.augmentation import shifted_and_mirrored
from workloads.data.base import DataError, DataSet
from workloads.data.imagefolder import Pictures

_FOLDER = "food-101"
_WAY_OUT = (
    "unpack food-101.tar.gz (https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101) and set "
    "root to the folder where it was unpacked"
)
_MAX_PROBLEMS = 10


def open_food101(root: str, image_size: int) -> DataSet:
    """Open Food-101 below ``root`` (or ``root`` itself), split as its authors did.

    Labels are positions in ``meta/classes.txt``; ids are positions in ``meta/train.txt`` and
    ``meta/test.txt``.

    Args:
        root: folder with ``food-101/`` or with its ``meta`` and ``images``.
        image_size: side in pixels; the middle is cut out.

    Raises:
        DataError: a list or a picture is missing, or a line does not name a class.
    """
    folder = Path(root) / _FOLDER if (Path(root) / _FOLDER).is_dir() else Path(root)
    meta = folder / "meta"
    missing = [
        f"{meta / name}: not found; {_WAY_OUT}"
        for name in ("classes.txt", "train.txt", "test.txt")
        if not (meta / name).is_file()
    ]
    if missing:
        raise DataError(missing)
    classes = _lines(meta / "classes.txt")
    labels = {name: label for label, name in enumerate(classes)}
    problems: list[str] = []
    train, held_out = (
        _files(folder, meta / name, labels, problems) for name in ("train.txt", "test.txt")
    )
    if not problems and not (train and held_out):
        problems.append(f"{meta}: train.txt or test.txt is empty; {_WAY_OUT}")
    if len(problems) > _MAX_PROBLEMS:
        left = len(problems) - _MAX_PROBLEMS
        problems = [*problems[:_MAX_PROBLEMS], f"{meta}: and {left} more lines like these"]
    if problems:
        raise DataError(problems)
    pictures = [Pictures(files, image_size) for files in (train, held_out)]
    return DataSet(pictures[0], pictures[1], len(classes), shifted_and_mirrored)


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _files(
    folder: Path, listed: Path, labels: dict[str, int], problems: list[str]
) -> list[tuple[Path, int]]:
    found = []
    for number, line in enumerate(_lines(listed), 1):
        label = labels.get(line.partition("/")[0])
        path = folder / "images" / f"{line}.jpg"
        if label is None:
            problems.append(f"{listed}:{number}: {line!r} begins with no class; {_WAY_OUT}")
        elif not path.is_file():
            problems.append(f"{listed}:{number}: {path} is not there; {_WAY_OUT}")
        else:
            found.append((path, label))
    return found

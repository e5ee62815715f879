"""Files that exist completely or not at all, even if their writer is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Yield a text file that takes the place of ``path`` when the block ends without an error.

    The file's data is on the disk before the name changes: otherwise a crash of the machine could
    leave an empty file under the right name.

    Raises:
        OSError: the file cannot be written; an earlier file stays as it was.
    """
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with partial.open("w", newline="", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)  # only there after an error; a full disk needs its room


def synchronise_folder(folder: Path) -> None:
    """Force the names in a folder to the disk.

    Raises:
        OSError: the folder cannot be opened or written.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

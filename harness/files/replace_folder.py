"""Replacement of a folder by another one, without a moment in which the place is empty."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import sys
from pathlib import Path

REPLACED = "-replaced"
"""Suffix of a replaced folder's name until it is removed."""
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_CANNOT = (errno.EINVAL, errno.ENOSYS)
"""Errors of file systems and kernels that cannot exchange two names."""


def put_in_place(folder: Path, place: Path) -> None:
    """Rename ``folder`` to ``place``, and remove the folder that was there.

    If several processes do this at once, none fails, and the last one's folder stays. Readers
    always find a whole folder. Some file systems (NFS) cannot exchange two names. There readers
    find the place empty between two renames.

    Args:
        folder: a folder on the file system of ``place``, under a name that only this process uses.
        place: the final path; free, or taken by the folder to replace.

    Raises:
        OSError: the file system refuses.
    """
    replaced = folder.with_name(folder.name + REPLACED)
    while not _is_renamed(folder, place):
        # Another process may remove the folder before either step; then the loop tries again.
        with contextlib.suppress(FileNotFoundError):
            if _is_exchanged(folder, place):
                break
            shutil.rmtree(replaced, ignore_errors=True)
            place.rename(replaced)
    for path in (folder, replaced):
        shutil.rmtree(path, ignore_errors=True)


def _is_renamed(folder: Path, place: Path) -> bool:
    """Rename a folder to a free place; return False if the place is taken."""
    try:
        folder.rename(place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _is_exchanged(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step; return False if that is impossible."""
    exchange = getattr(
        _LIBC, "renameat2", None
    )  # other systems and older C libraries lack renameat2
    if exchange is None:
        return False
    names = (os.fsencode(one), os.fsencode(other))
    if exchange(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))

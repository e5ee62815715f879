"""Files of unknown origin, read so that they can neither lead elsewhere nor fill the memory.

A file that is read here is a regular file: a device, a pipe or a socket would answer for ever. Its
size is bounded before memory is taken, and a compressed file's while it is unpacked, since a few
kilobytes can stand for gigabytes. A file of a stored run is also no link, which would lead out of
the run's folder.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import zlib
from pathlib import Path
from typing import Any, Protocol

MOST_BYTES = 2 << 30
"""Largest unpacked table or archived file: ten times the size of a million jobs' records."""
MOST_TEXT_BYTES = 64 << 20
"""Largest document that is parsed as a whole; parsing takes up to fifty times its size."""
_FREE_BYTES, _MOST_RATIO = 64 << 20, 200
"""What a compressed file may always hold, and how many times its own size beyond that. Tables of
records hold 5 to 30 times their size, and a file made to fill a memory holds 1,000 times."""


class UnsafeFileError(OSError):
    """A file that is not read for what it is; the text is the fact, and the caller names it."""

    def __init__(self, fact: str, path: Path | None = None) -> None:
        super().__init__(fact)
        self.strerror = fact
        self.filename = None if path is None else str(path)

    def __str__(self) -> str:
        return str(self.strerror)


def opened(path: Path, *, follow: bool = False) -> io.BufferedReader:
    """Open a regular file.

    Args:
        path: the file.
        follow: the user named it, so that it may be a link.

    Raises:
        UnsafeFileError: it is a link, or no regular file.
        OSError: it cannot be opened.
    """
    if "\0" in str(path):
        raise UnsafeFileError("its name holds a null character", path)
    if not follow and path.is_symlink():
        raise UnsafeFileError("it is a link; put the file itself there", path)
    # Opening a pipe would wait for its writer. A link put there since the check is not followed.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnsafeFileError("it is no regular file", path)
    return os.fdopen(descriptor, "rb")


def opened_plain(
    path: Path, *, most_bytes: int = MOST_BYTES, follow: bool = False
) -> io.BufferedReader:
    """Open a regular file, unpacked if its name ends in ``.gz``; reading is bounded.

    Args:
        path: the file.
        most_bytes: that are read of it, unpacked.
        follow: the user named it, so that it may be a link.

    Raises:
        UnsafeFileError: it is a link or no regular file; when read: it is larger.
        OSError: it cannot be opened; when read: it is no gzip file, or damaged.
    """
    file = opened(path, follow=follow)
    if path.suffix != ".gz":
        return io.BufferedReader(Bounded(file, most_bytes), 1 << 16)
    stored_bytes = os.fstat(file.fileno()).st_size
    most_bytes = min(most_bytes, max(_FREE_BYTES, _MOST_RATIO * stored_bytes))
    return io.BufferedReader(_Unpacked(file, most_bytes), 1 << 16)


def read_text(path: Path, *, most_bytes: int = MOST_TEXT_BYTES, follow: bool = False) -> str:
    """Return the text of a regular file, unpacked if its name ends in ``.gz``.

    Raises:
        UnsafeFileError: as for ``opened_plain``.
        OSError: it cannot be read, or is no gzip file.
        UnicodeDecodeError: it is no text in UTF-8.
    """
    with opened_plain(path, most_bytes=most_bytes, follow=follow) as file:
        return file.read().decode("utf-8")


def parse_json(text: str | bytes) -> Any:
    """Return a JSON document.

    Raises:
        ValueError: it is none, or is nested too deeply, or has a number of too many digits.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class Source(Protocol):
    """The stream that a bounded stream reads."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most so many bytes; none at the end."""

    def close(self) -> None:
        """Close it."""


class Bounded(io.RawIOBase):
    """A stream that refuses to give more than so many bytes."""

    def __init__(self, source: Source, most_bytes: int) -> None:
        self._source = source
        self._most_bytes = most_bytes
        self._left = most_bytes

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; the number of bytes, 0 at the end.

        Raises:
            UnsafeFileError: there are more than the bound.
        """
        data = self._source.read(len(buffer)) or b""
        self._left -= len(data)
        if self._left < 0:
            raise UnsafeFileError(f"it holds more than {self._most_bytes:,} bytes")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close it and its source."""
        self._source.close()
        super().close()


class _Unpacked(Bounded):
    """The plain bytes of a gzip file; what is damaged in it is an ``OSError``."""

    def __init__(self, packed: io.BufferedReader, most_bytes: int) -> None:
        super().__init__(gzip.GzipFile(fileobj=packed), most_bytes)
        self._packed = packed

    def readinto(self, buffer: Any) -> int:
        try:
            return super().readinto(buffer)
        except (EOFError, zlib.error) as error:
            raise OSError(f"damaged: {error}") from error

    def close(self) -> None:
        super().close()
        self._packed.close()

"""Reader of untrusted files, which refuses links and bounds the memory taken.

Only regular files are read, because a device, a pipe or a socket could answer without end. A file's
size is bounded before memory is taken. For a compressed file the bound holds while it is unpacked,
because a few kilobytes can expand to gigabytes. A file of a stored run must not be a link either,
because a link would lead out of the run's folder.
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
"""Bytes that any compressed file may unpack to, and the largest ratio to its own size beyond that.
Tables of records have 5 to 30 times their size; a file made to fill a memory has 1,000 times."""


class UnsafeFileError(OSError):
    """Refusal to read a file because of its kind or size. The text is the fact; the caller names
    the file."""

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
        follow: true if the user named the file, so that it may be a link.

    Raises:
        UnsafeFileError: the file is a link, or not a regular file.
        OSError: the file cannot be opened.
    """
    if "\0" in str(path):
        raise UnsafeFileError("its name holds a null character", path)
    if not follow and path.is_symlink():
        raise UnsafeFileError("it is a link; put the file itself there", path)
    # Without O_NONBLOCK, opening a pipe would wait for its writer. O_NOFOLLOW refuses a link that
    # was put there after the check.
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
        most_bytes: most bytes that are read, after unpacking.
        follow: true if the user named the file, so that it may be a link.

    Raises:
        UnsafeFileError: the file is a link or not regular; when read: it is larger.
        OSError: the file cannot be opened; when read: it is no gzip file, or damaged.
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
        OSError: the file cannot be read, or is no gzip file.
        UnicodeDecodeError: the file is no UTF-8 text.
    """
    with opened_plain(path, most_bytes=most_bytes, follow=follow) as file:
        return file.read().decode("utf-8")


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document.

    Raises:
        ValueError: the text is no JSON, is nested too deeply, or has too long a number.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class Source(Protocol):
    """Stream from which a bounded stream reads."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most ``size`` bytes; none at the end."""

    def close(self) -> None:
        """Close the stream."""


class Bounded(io.RawIOBase):
    """Stream that refuses to give more than ``most_bytes``."""

    def __init__(self, source: Source, most_bytes: int) -> None:
        self._source = source
        self._most_bytes = most_bytes
        self._left = most_bytes

    def readable(self) -> bool:
        """Return true, because the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer and return the number of bytes, 0 at the end.

        Raises:
            UnsafeFileError: the stream has more bytes than the bound.
        """
        data = self._source.read(len(buffer)) or b""
        self._left -= len(data)
        if self._left < 0:
            raise UnsafeFileError(f"it holds more than {self._most_bytes:,} bytes")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the stream and its source."""
        self._source.close()
        super().close()


class _Unpacked(Bounded):
    """Stream of the plain bytes of a gzip file; damage is reported as an ``OSError``."""

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

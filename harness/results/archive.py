"""Archive of a study's runs in one file, ``STUDY.tar.xz``: for studies of many small runs.

Runs of a study are much alike, so together they take a tenth of their separate size. An archive
replaces the folder of its study. Its runs are found in ``.unpacked`` next to it. They are unpacked
there when they are first needed, and again when the archive has changed.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import io
import lzma
import os
import re
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import Any, Self

from harness.errors import StoredDataError
from harness.files.bounded_file import MOST_BYTES, Bounded, opened
from harness.results.tables import COMPRESS_LEVEL

SUFFIX = ".tar.xz"
UNPACKED = ".unpacked"
_PARTIAL = ".partial-"
_TEXTS = (".json.gz", ".yaml.gz")
_TABLE, _PLAIN_TABLE = ".csv.gz", ".csv"
_DIGITS = 16
"""Digits of an archive's SHA-256 in the name of the folder where it is unpacked."""
_PLACE = re.compile(f"[0-9a-f]{{{_DIGITS}}}")
_MOST_UNPACKED_BYTES = 4 * MOST_BYTES
"""Largest size of an unpacked archive. Memory holds one of its files at a time."""
_MOST_HEADER_BYTES = 1 << 20
"""Largest second part of a header, which holds a long name; it is read into memory at once."""
_MOST_FILES = 200_000
"""Largest number of files in an archive: three times that of the largest study."""
_MEMORY_BYTES = 128 << 20
"""Largest memory for the dictionary of an archive. This project's archives need 65 MiB; a header
may ask for 4 GiB."""


class ArchiveError(StoredDataError):
    """Failure to read an archive; the text names it and the way out."""


def is_archive(path: Path) -> bool:
    """Return whether a path is an archive: the runs of a study in one file.

    A name that begins with a dot is refused. Without its suffix it could be ``..``, which is
    another folder.
    """
    return path.name.endswith(SUFFIX) and not path.name.startswith(".") and path.is_file()


def archive_of(folder: Path) -> Path:
    """Return the path of the archive of a study's folder, whether or not it exists."""
    return folder.with_name(folder.name + SUFFIX)


def pack(folder: Path) -> Path:
    """Replace the folder of a study by its archive; the same runs give the same bytes.

    Raises:
        OSError: the disk is full or cannot be written; the folder is left as it was.
    """
    # Similar files are adjacent, which compresses better: all configurations, then all manifests.
    runs = (run for run in folder.iterdir() if run.is_dir() and not run.name.startswith("."))
    files = (path for run in runs for path in run.iterdir() if path.is_file())
    paths = sorted(files, key=lambda path: (path.name, path))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in paths:
            name, content = _plain(path)
            inside = path.relative_to(folder).with_name(name).as_posix()
            entry = tarfile.TarInfo(f"{folder.name}/{inside}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    archive = archive_of(folder)
    partial = archive.with_name(f"{_PARTIAL}{archive.name}")
    try:
        partial.write_bytes(lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME))
        partial.rename(archive)
    finally:
        partial.unlink(missing_ok=True)
    shutil.rmtree(folder)
    return archive


def _plain(path: Path) -> tuple[str, bytes]:
    """Return a file's name and content, without the compression of texts and tables. Compressed,
    they would not resemble the files of other runs."""
    content = path.read_bytes()
    if path.name.endswith((*_TEXTS, _TABLE)):
        try:
            return path.stem, gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            pass  # damaged: its reader reports that, as for a run that is not packed
    return path.name, content


def unpacked(archive: Path) -> Path:
    """Return the folder of the study in an archive, unpacked if necessary.

    Raises:
        ArchiveError: the archive cannot be read, or cannot be unpacked here.
    """
    study = archive.name.removesuffix(SUFFIX)
    try:
        _check_place(archive.parent / UNPACKED)
        with opened(archive, follow=True) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            place = archive.parent / UNPACKED / digest[:_DIGITS]
            if not (place / study).is_dir():
                file.seek(0)
                _unpack(file, place, study)
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError, ValueError) as error:
        raise ArchiveError(
            f"{archive}: cannot be unpacked ({error}); get the file again, and check that its "
            "folder can be written"
        ) from error
    return place / study


def located(path: Path) -> Path:
    """Return the file to which a path leads, also through an archive (``STUDY.tar.xz/RUN/FILE``),
    which is unpacked if necessary.

    Raises:
        ArchiveError: the archive cannot be read.
    """
    for parent in path.parents:
        if is_archive(parent):
            return unpacked(parent) / path.relative_to(parent)
    return path


def shown(path: Path) -> Path:
    """Return a path for messages. For a file of an archive it leads through the archive, because
    ``.unpacked`` may be missing on another machine. ``located`` is the inverse."""
    for parent in path.parents:
        if (
            parent.parent.parent.name == UNPACKED
        ):  # the path has the digest between the archive and the study
            return archive_of(parent.parent.parent.parent / parent.name) / path.relative_to(parent)
    return path


def _stored(name: str, content: bytes) -> tuple[str, bytes]:
    """Return a file's name and content as runs are stored: with their tables compressed."""
    if name.endswith(_PLAIN_TABLE):
        return f"{name}.gz", gzip.compress(content, COMPRESS_LEVEL, mtime=0)
    return name, content


class _Entry(tarfile.TarInfo):
    """Archive entry whose size is bounded when its header is read, before its content is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Return the entry of a header.

        Raises:
            ValueError: the header announces too large a file, or too long a name.
        """
        found = super().frombuf(buf, encoding, errors)
        most_bytes = MOST_BYTES if found.isreg() else _MOST_HEADER_BYTES
        if not 0 <= found.size <= most_bytes:
            raise ValueError(f"{found.name!r} is to hold {found.size:,} bytes, over {most_bytes:,}")
        return found


def _check_place(folder: Path) -> None:
    """Refuse to write through a link, which would lead out of the folder of the results."""
    if folder.is_symlink():
        raise ValueError(f"{folder} is a link; remove it")


class _Plain(io.RawIOBase):
    """Content of an ``.xz`` stream; lzma's own file does not bound the memory of a dictionary."""

    def __init__(self, packed: io.BufferedReader) -> None:
        self._packed = packed
        self._unpacker = lzma.LZMADecompressor(memlimit=_MEMORY_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data and not self._unpacker.eof:
            more = self._packed.read(1 << 16) if self._unpacker.needs_input else b""
            if self._unpacker.needs_input and not more:
                raise EOFError("it ends in the middle")
            data = self._unpacker.decompress(more, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _unpack(packed: io.BufferedReader, place: Path, study: str) -> None:
    """Unpack into ``place`` in one step, because several processes may ask at once."""
    partial = place.with_name(f"{_PARTIAL}{place.name}-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        plain = io.BufferedReader(Bounded(_Plain(packed), _MOST_UNPACKED_BYTES), 1 << 16)
        with tarfile.open(fileobj=plain, mode="r|", tarinfo=_Entry) as tar:
            for number, entry in enumerate(tar):
                parts = Path(entry.name).parts
                is_own = parts[:1] == (study,) and len(parts) == 3 and ".." not in parts
                # A sparse file may claim any number of zeros.
                is_file = entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not entry.issparse()
                found = tar.extractfile(entry) if is_file else None
                if not is_own or found is None:
                    raise ValueError(f"{entry.name!r} is no file of a run of {study}")
                # A later extended header may have changed the size since ``frombuf`` bounded it.
                if entry.size > MOST_BYTES or number >= _MOST_FILES:
                    raise ValueError("it holds more, or larger, files than any study")
                name, stored = _stored(parts[2], found.read())
                path = partial.joinpath(*parts).with_name(name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(stored)
        while plain.read(
            1 << 20
        ):  # read to the end, because only then a truncated archive is noticed
            pass
        try:
            partial.rename(place)
        except OSError:
            if not (place / study).is_dir():
                raise
            return  # another process has unpacked it meanwhile
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    for other in place.parent.glob(f"*/{glob.escape(study)}"):
        # A partial folder stays: another process may be unpacking this archive at the same time.
        if other.parent != place and _PLACE.fullmatch(other.parent.name):
            shutil.rmtree(other.parent, ignore_errors=True)

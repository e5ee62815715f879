"""All runs of a study as one file, ``STUDY.tar.xz``: for studies of many small runs.

Runs of a study are much alike, so together they take a tenth of what they take one by one. An
archive stands for the folder of its study. Whoever looks for runs below it finds them in
``.unpacked`` beside it, where they are put when they are first asked for, and anew when the archive
is another.
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

from harness.bounded_file import MOST_BYTES, Bounded, opened
from harness.tables import COMPRESS_LEVEL

SUFFIX = ".tar.xz"
UNPACKED = ".unpacked"
_PARTIAL = ".partial-"
_TEXTS = (".json.gz", ".yaml.gz")
_TABLE, _PLAIN_TABLE = ".csv.gz", ".csv"
_DIGITS = 16
"""Of an archive's SHA-256, which name the place where it is unpacked."""
_PLACE = re.compile(f"[0-9a-f]{{{_DIGITS}}}")
_MOST_UNPACKED_BYTES = 4 * MOST_BYTES
"""Largest size of an unpacked archive. Memory holds one of its files at a time."""
_MOST_HEADER_BYTES = 1 << 20
"""Largest second part of a header, which has a long name; it is read into memory at once."""
_MOST_FILES = 200_000
"""Most files in an archive: three times as many as the largest study has."""
_MEMORY_BYTES = 128 << 20
"""For the dictionary of an archive. Ours need 65 MiB; a header may ask for 4 GiB."""


class ArchiveError(Exception):
    """An archive that cannot be read; the text names it and the way out."""


def is_archive(path: Path) -> bool:
    """Return whether a path is an archive: the runs of a study in one file.

    A study of which nothing but dots is left (``..`` + ``.tar.xz``) names another folder.
    """
    return path.name.endswith(SUFFIX) and not path.name.startswith(".") and path.is_file()


def archive_of(folder: Path) -> Path:
    """Where the folder of a study is as one file, or would be."""
    return folder.with_name(folder.name + SUFFIX)


def pack(folder: Path) -> Path:
    """Replace the folder of a study by its archive; the same runs make the same bytes.

    Raises:
        OSError: the disk is full or refuses; the folder is left as it was.
    """
    # What is alike lies together: first all configurations, then all manifests, and so on.
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
    """A file's name and content; of compressed texts and tables as they are without, or nothing of
    them would look like anything in another run's."""
    content = path.read_bytes()
    if path.name.endswith((*_TEXTS, _TABLE)):
        try:
            return path.stem, gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            pass  # damaged: whoever reads it is told, as before
    return path.name, content


def unpacked(archive: Path) -> Path:
    """The folder of the study that an archive stands for.

    Raises:
        ArchiveError: it cannot be read, or cannot be unpacked here.
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
            f"{archive}: cannot be unpacked ({error}); get the file anew, and see that its folder"
            " can be written"
        ) from error
    return place / study


def located(path: Path) -> Path:
    """The file that a path leads to, also through an archive (``STUDY.tar.xz/RUN/FILE``), which is
    unpacked for it.

    Raises:
        ArchiveError: the archive cannot be read.
    """
    for parent in path.parents:
        if is_archive(parent):
            return unpacked(parent) / path.relative_to(parent)
    return path


def shown(path: Path) -> Path:
    """A path for people: through the archive where the file is from one, since ``.unpacked`` need
    not be there on another machine. What ``located`` undoes."""
    for parent in path.parents:
        if parent.parent.parent.name == UNPACKED:  # the digest is between it and the study
            return archive_of(parent.parent.parent.parent / parent.name) / path.relative_to(parent)
    return path


def _stored(name: str, content: bytes) -> tuple[str, bytes]:
    """A file's name and content as runs are stored: with their tables compressed."""
    if name.endswith(_PLAIN_TABLE):
        return f"{name}.gz", gzip.compress(content, COMPRESS_LEVEL, mtime=0)
    return name, content


class _Entry(tarfile.TarInfo):
    """An entry whose size is bounded when its header is read, before its content is."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Return the entry of a header.

        Raises:
            ValueError: it announces more than a file, or a longer name, may take.
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
    """What an ``.xz`` stream holds; lzma's own file does not bound the memory of a dictionary."""

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
    """Into ``place``, in one step: several processes may ask at once."""
    partial = place.with_name(f"{_PARTIAL}{place.name}-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        plain = io.BufferedReader(Bounded(_Plain(packed), _MOST_UNPACKED_BYTES), 1 << 16)
        with tarfile.open(fileobj=plain, mode="r|", tarinfo=_Entry) as tar:
            for number, entry in enumerate(tar):
                parts = Path(entry.name).parts
                is_own = parts[:1] == (study,) and len(parts) == 3 and ".." not in parts
                # A sparse file may say that it holds any number of zeros.
                is_file = entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not entry.issparse()
                found = tar.extractfile(entry) if is_file else None
                if not is_own or found is None:
                    raise ValueError(f"{entry.name!r} is no file of a run of {study}")
                # A longer header may have said another size since.
                if entry.size > MOST_BYTES or number >= _MOST_FILES:
                    raise ValueError("it holds more, or larger, files than any study")
                name, stored = _stored(parts[2], found.read())
                path = partial.joinpath(*parts).with_name(name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(stored)
        while plain.read(1 << 20):  # to the end: what was cut off there is found only so
            pass
        try:
            partial.rename(place)
        except OSError:
            if not (place / study).is_dir():
                raise
            return  # another process was quicker
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    for other in place.parent.glob(f"*/{glob.escape(study)}"):
        # One that is being made may be of this archive, by a process that asked at the same time.
        if other.parent != place and _PLACE.fullmatch(other.parent.name):
            shutil.rmtree(other.parent, ignore_errors=True)

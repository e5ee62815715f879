"""Archives of studies: whole files, plain tar streams, and entries that an input describes."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

from harness.results.archive import UNPACKED, ArchiveError, unpacked
from tests.fuzz.edits import Choices
from tests.fuzz.target import Target

_NAMES = (
    "study/run/manifest.json", "study/run/jobs.csv", "../outside/file", "/outside/file",
    "study/../../x", "study/run/../file", "study/run/sub/file", "other/run/file", "study/run", "",
    ".", "study/./run/file", "study//run/file", "study/run/" + "x" * 300, "study/run/\udcff",
    "study\\run\\file", "study/run/.csv",
)  # fmt: skip
_TYPES = (
    tarfile.REGTYPE, tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE,
    tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE, tarfile.CONTTYPE,
)  # fmt: skip
_SIZES = (0, 1, 100, 10_000)
_SAID = (None, None, None, 1 << 20, 1 << 40, -1)
_LINKS = ("", "/etc/passwd", "../../..", "study/run/manifest.json")
_PAX = (
    {},
    {},
    {"size": "99999999999"},
    {"path": "../x"},
    {"GNU.sparse.size": "1" * 12},
    {"size": "x"},
)


def _read(data: bytes, folder: Path) -> None:
    choices = Choices(data)
    kind = choices.below(3)
    archive = folder / "study.tar.xz"
    if kind == 0:
        archive.write_bytes(choices.rest)
    elif kind == 1:
        archive.write_bytes(_packed(choices.rest))
    else:
        archive.write_bytes(_packed(_entries(choices)))
    place = unpacked(archive)
    for path in folder.rglob("*"):
        assert not path.is_symlink()
        assert path == archive or path.is_relative_to(folder / UNPACKED)
    assert place.is_relative_to(folder / UNPACKED)


def _packed(content: bytes) -> bytes:
    return lzma.compress(content, preset=0)


def _entries(choices: Choices) -> bytes:
    packed = io.BytesIO()
    form = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)[choices.below(2)]
    for _ in range(1 + choices.below(4)):
        entry = tarfile.TarInfo(_NAMES[choices.below(len(_NAMES))])
        entry.type = _TYPES[choices.below(len(_TYPES))]
        entry.linkname = _LINKS[choices.below(len(_LINKS))]
        entry.pax_headers = dict(_PAX[choices.below(len(_PAX))])
        content = bytes(_SIZES[choices.below(len(_SIZES))])
        said = _SAID[choices.below(len(_SAID))]
        entry.size = len(content) if said is None else max(said, 0)
        packed.write(entry.tobuf(form, "utf-8", "surrogateescape"))
        packed.write(content + bytes(-len(content) % tarfile.BLOCKSIZE))
    packed.write(bytes(2 * tarfile.BLOCKSIZE))
    return packed.getvalue()


TARGET = Target(
    "archives", _read, (ArchiveError,),
    [b"\2\0\0\0\0\0\0\2\0", b"\2\1\1\2\3\1\2\3", b"\0" + _packed(_entries(Choices(b"")))],
)  # fmt: skip

"""The text files of a stored run, which slim copies keep compressed: ``NAME`` or ``NAME.gz``."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path


def text_path(run: Path, name: str) -> Path:
    """Where the file of this name is in the directory of a run, or would be."""
    compressed = _compressed(run / name)
    return compressed if compressed.is_file() else run / name


def read_text(path: Path) -> str:
    """The text of a file, compressed if it is called ``.gz``.

    Raises:
        OSError: the file cannot be read, or is no gzip file.
        UnicodeDecodeError: it is no text in UTF-8.
    """
    if path.suffix != ".gz":
        return path.read_text(encoding="utf-8")
    try:
        return gzip.decompress(path.read_bytes()).decode("utf-8")
    except (EOFError, zlib.error) as error:
        raise OSError(f"damaged: {error}") from error


def compress(plain: Path) -> None:
    """Replace a file by its compressed form, the same bytes every time."""
    _compressed(plain).write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()


def _compressed(plain: Path) -> Path:
    return plain.with_name(f"{plain.name}.gz")

"""The text files of a stored run, which slim copies keep compressed: ``NAME`` or ``NAME.gz``."""

from __future__ import annotations

import gzip
from pathlib import Path


def text_path(run: Path, name: str) -> Path:
    """Where the file of this name is in the directory of a run, or would be."""
    compressed = _compressed(run / name)
    return compressed if compressed.is_file() else run / name


def compress(plain: Path) -> None:
    """Replace a file by its compressed form, the same bytes every time."""
    _compressed(plain).write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()


def _compressed(plain: Path) -> Path:
    return plain.with_name(f"{plain.name}.gz")

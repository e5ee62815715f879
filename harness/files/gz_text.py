"""Text files of a stored run, which slim copies keep compressed: ``NAME`` or ``NAME.gz``."""

from __future__ import annotations

import gzip
from pathlib import Path


def text_path(run: Path, name: str) -> Path:
    """Return the path of the file with this name in a run's directory, compressed if it is so."""
    compressed = _compressed(run / name)
    return compressed if compressed.is_file() else run / name


def compress(plain: Path) -> None:
    """Replace a file by its compressed form, which has the same bytes every time."""
    _compressed(plain).write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()


def _compressed(plain: Path) -> Path:
    return plain.with_name(f"{plain.name}.gz")

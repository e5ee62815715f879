"""Text files of a stored run: ``NAME``, or ``NAME.gz`` in slim copies."""

from __future__ import annotations

import gzip
from pathlib import Path


def text_path(run: Path, name: str) -> Path:
    """Return the path of ``name`` in a run's directory, or of ``name.gz`` if only that exists."""
    compressed = _compressed(run / name)
    return compressed if compressed.is_file() else run / name


def compress(plain: Path) -> None:
    """Replace a file by its compressed form; equal contents give equal bytes."""
    _compressed(plain).write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()


def _compressed(plain: Path) -> Path:
    return plain.with_name(f"{plain.name}.gz")

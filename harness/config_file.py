"""The configuration of a stored run as a file: ``config.yaml``, compressed in slim copies."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

CONFIG = "config.yaml"
_COMPRESSED = f"{CONFIG}.gz"


def config_path(run: Path) -> Path:
    """Where the configuration of the run in this directory is, or would be."""
    compressed = run / _COMPRESSED
    return compressed if compressed.is_file() else run / CONFIG


def read_config(path: Path) -> str:
    """The text of a configuration, compressed if the file is called ``.gz``.

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


def compress_config(run: Path) -> None:
    """Replace ``config.yaml`` in a directory by its compressed form, the same bytes every time."""
    plain = run / CONFIG
    (run / _COMPRESSED).write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()

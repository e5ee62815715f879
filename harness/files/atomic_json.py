"""JSON files that exist whole or not at all, however their writer ends."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a file, and its folder if missing; the data is on the disk when this returns.

    Raises:
        OSError: it cannot be written; an earlier file stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)

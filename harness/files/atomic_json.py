"""JSON files that exist completely or not at all, even if their writer is killed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.files.whole_file import whole_file


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a file, and its folder if missing; the data is on the disk when this returns.

    Raises:
        OSError: the file cannot be written; an earlier file stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(json.dumps(document, indent=1) + "\n")

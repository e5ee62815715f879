"""Files of studies, with the points that they describe."""

from __future__ import annotations

from pathlib import Path

import yaml

from harness.configuration.study import load_study
from harness.errors import UserError
from tests.fuzz.edits import Choices, edited
from tests.fuzz.target import Target

DOCUMENT = {
    "description": "it compares", "base": ["trace=five_jobs", "cluster=dgx8"],
    "grids": [
        {"scheduler": ["fifo", "edf"], "seed": [0, 1]},
        {"backend": ["static"], "repetition": [0]},
    ],
    "repetitions": 2, "parallel": 1, "quick": ["seed=0"], "figures": ["comparison"],
    "also": ["fig1"],
}  # fmt: skip


def _read(data: bytes, folder: Path) -> None:
    choices = Choices(data)
    path = folder / "study.yaml"
    if choices.below(2):
        path.write_text(yaml.safe_dump(edited(DOCUMENT, choices)))
    else:
        path.write_bytes(choices.rest)
    load_study(str(path)).points()


TARGET = Target(
    "studies", _read, (UserError,), [b"\0" + yaml.safe_dump(DOCUMENT).encode(), b"\1\1\2\3"]
)

"""A drawn trace, written as a CSV and the YAML that describes it.

A trace is always a file. It is drawn and written once, and every run that names it replays the same
jobs, even if the generator changes later.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import yaml


@dataclass(frozen=True)
class Generated:
    """The output of a generator."""

    rows: Sequence[Mapping[str, object]]
    """One mapping for each job: fields of ``ColumnsReader``, the same in every row."""
    about: str
    """Description of the trace and its source, in one or two sentences."""
    reader: Mapping[str, Any] = field(default_factory=dict)
    """Options of ``ColumnsReader`` besides the path and the columns."""
    transforms: Sequence[Mapping[str, Any]] = ()
    recorded_on_slots: int | None = None


class Generator(Protocol):
    """A frozen dataclass of options, named after the traces it draws."""

    def draw(self, rng: np.random.Generator) -> Generated:
        """Draw one trace; equal options and equal streams give equal traces."""
        ...


def write(generated: Generated, folder: Path, name: str, options: Mapping[str, object]) -> Path:
    """Write ``NAME.csv`` and ``NAME.yaml`` into a folder; return the YAML's path.

    Both files are written in full under other names first, so that a failed write leaves the old
    files.

    Args:
        generated: the drawn trace.
        folder: is created if absent.
        name: of the trace.
        options: of the generator, the seed among them, for the record.

    Raises:
        OSError: the files cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = list(generated.rows[0])
    data, config = folder / f"{name}.csv", folder / f"{name}.yaml"
    drawn = ", ".join(f"{key}={value}" for key, value in options.items())
    content: dict[str, Any] = {
        "name": name,
        "source": f"{generated.about} Drawn with {drawn}.",
        "licence": "Apache-2.0",
    }
    if generated.recorded_on_slots is not None:
        content["recorded_on_slots"] = generated.recorded_on_slots
    content["reader"] = {
        "_target_": "harness.trace.columns.ColumnsReader",
        "path": data.name,
        "columns": {column: column for column in columns},
        "generated": ["arrival_s", "requested_slots", "workload", "work_samples", "duration_s"],
        **generated.reader,
    }
    content["transforms"] = [dict(transform) for transform in generated.transforms]
    part = data.with_suffix(".csv.part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(generated.rows)
    described = config.with_suffix(".yaml.part")
    described.write_text(
        yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8"
    )
    # The CSV first, so that a YAML never names a CSV that does not exist.
    os.replace(part, data)
    os.replace(described, config)
    return config

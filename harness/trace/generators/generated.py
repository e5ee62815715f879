"""A trace that was drawn, as a CSV and the YAML that describes it.

A trace is always a file: what was drawn is written once, and every run that names it replays the
same jobs, whatever becomes of the generator.
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
    """What a generator has drawn."""

    rows: Sequence[Mapping[str, object]]
    """One job each: fields of ``ColumnsReader``, the same in every row."""
    about: str
    """What was drawn and from where, in a sentence or two."""
    reader: Mapping[str, Any] = field(default_factory=dict)
    """Options of ``ColumnsReader`` beside the path and the columns."""
    transforms: Sequence[Mapping[str, Any]] = ()
    recorded_on_slots: int | None = None


class Generator(Protocol):
    """A frozen dataclass of its options, named after what it draws."""

    def draw(self, rng: np.random.Generator) -> Generated:
        """One trace; equal options and equal streams give equal traces."""
        ...


def write(generated: Generated, folder: Path, name: str, options: Mapping[str, object]) -> Path:
    """Write ``NAME.csv`` and ``NAME.yaml`` into a folder; the YAML's path.

    Either both are there afterwards or what was there before.

    Args:
        generated: what was drawn.
        folder: is made if it is not there.
        name: of the trace.
        options: of the generator, the seed among them, for the record.

    Raises:
        OSError: they cannot be written.
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
    os.replace(part, data)
    os.replace(described, config)
    return config

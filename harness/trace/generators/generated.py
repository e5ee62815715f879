"""A drawn trace, written as a CSV and the YAML that describes it.

A trace is always a file. It is drawn and written once, and every run that names it replays the same
jobs, even if the generator changes later.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import yaml

from harness.files.whole_file import whole_file


@dataclass(frozen=True)
class Generated:
    """Output of a generator."""

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
    files. A crash leaves the old trace, the new one, or none.

    Args:
        generated: the drawn trace.
        folder: folder to write to, created if absent.
        name: name of the trace.
        options: options of the generator including the seed, for the trace's source.

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
    with whole_file(config) as described:
        yaml.safe_dump(content, described, sort_keys=False, allow_unicode=True)
        with whole_file(data) as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(generated.rows)
            # Without this, a crash between the two renames would leave the old YAML with the new
            # CSV, a trace that was never drawn. A CSV without a YAML is no trace.
            config.unlink(missing_ok=True)
    return config

"""Writer of traces of one job, for commands that measure one program at a time."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import yaml


def write_one_job(
    folder: Path,
    workload: str,
    batch: int,
    sizes: Sequence[int],
    steps: int,
    source: str,
    logical_workers: int | None = None,
) -> Path:
    """Write a CSV of one job and the YAML that describes it; return the YAML's path.

    Args:
        folder: folder to write to, created if absent; files of the same name are overwritten.
        workload: name in the pool.
        batch: global batch.
        sizes: the first is the requested slots, the largest is the job's upper bound.
        steps: work, in steps of ``batch`` samples.
        source: text that names the writer, for the manifest.
        logical_workers: logical workers of the job; None: as many as its requested slots.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{workload}-{batch}-{sizes[0]}of{max(sizes)}-{steps}"
    row = {
        "arrival": 0,
        "slots": sizes[0],
        "workload": workload,
        "batch": batch,
        "work": steps * batch,
        "min_slots": 1,
        "max_slots": max(sizes),
    }
    if logical_workers is not None:
        stem += f"-{logical_workers}v"
        row["logical_workers"] = logical_workers
    with (folder / f"{stem}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(row)
        writer.writerow(row.values())
    description = {
        "name": f"one_{stem}",
        "source": source,
        "licence": "Apache-2.0",
        "reader": {
            "_target_": "harness.trace.columns.ColumnsReader",
            "path": f"{stem}.csv",
            "columns": {name: name for name in row},
        },
        "transforms": [],
    }
    path = folder / f"{stem}.yaml"
    path.write_text(yaml.safe_dump(description, sort_keys=False), encoding="utf-8")
    return path

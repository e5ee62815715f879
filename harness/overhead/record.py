"""Files of the overhead study: one for each finished trial, and the record of them all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from harness.config import hash_json
from harness.manifest import hardware_slug
from harness.overhead import numbers
from harness.overhead.settings import Settings
from harness.overhead.trials import Cell, Kind, Rounds, Trial
from harness.store import StoreError

NAME = "bench_overhead"
RECORD = "record.json"
_USUAL = "static"
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class TrialStore:
    """Finished trials below a folder, each in a file of its own."""

    folder: Path
    environment: Mapping[str, Any]
    """Of this machine and this code, as in every manifest."""
    settings: Settings

    def path(self, trial: Trial) -> Path:
        """Where a trial is; another machine, library or setting gives another name."""
        hardware = self.environment["hardware"]
        packages = self.environment["packages"]
        used = self.settings
        conditions = [
            *(used.reference, used.backend, used.turn_s, used.drop),
            *(trial.cell.facts, self.environment["python"]),
            *(hardware["cpu"], hardware["cores"], packages.get("torch")),
        ]
        return self.folder / f"{trial.name}-{hash_json(conditions)[:8]}.json"

    def find(self, trial: Trial) -> Mapping[str, Any] | None:
        """What was measured, or None.

        Raises:
            StoreError: the file is damaged.
        """
        path = self.path(trial)
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            assert all(set(periods) == set(Kind) for periods in found["rounds_s"])
        except (OSError, ValueError, KeyError, TypeError, AssertionError):
            way_out = "remove it and run the command again"
            raise StoreError(f"{path}: is damaged; {way_out}") from None
        return dict(found)

    def add(self, trial: Trial, rounds_s: Rounds, load: Mapping[str, float]) -> None:
        """Write a finished trial, in one step."""
        document = {
            "workload": trial.cell.workload,
            "trial": trial.number,
            **trial.cell.facts,
            "git_commit": self.environment["git_commit"],
            "git_dirty": self.environment["git_dirty"],
            "load_before": dict(load),
            "rounds_s": rounds_s,
        }
        write_json(self.path(trial), document)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def make_record(
    settings: Settings,
    found: Mapping[Trial, Mapping[str, Any]],
    environment: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything that the study says, from its finished trials."""
    cells = list(dict.fromkeys(trial.cell for trial in found))
    loads = [float(entry["load_before"]["load_1min"]) for entry in found.values()]
    return {
        "name": NAME,
        "schema_version": SCHEMA_VERSION,
        **environment,
        "settings": asdict(settings),
        "commits": sorted({str(entry["git_commit"]) for entry in found.values()}),
        "any_dirty": any(entry["git_dirty"] for entry in found.values()),
        "load_1min": {"min": min(loads), "median": median(loads), "max": max(loads)},
        "cells": [_cell_record(cell, settings, found) for cell in cells],
    }


def _cell_record(
    cell: Cell, settings: Settings, found: Mapping[Trial, Mapping[str, Any]]
) -> dict[str, Any]:
    own = sorted((trial for trial in found if trial.cell is cell), key=lambda t: t.number)
    made: dict[str, Any] = {"workload": cell.workload, **cell.facts, "trials": []}
    num_looks = len(settings.looks)
    centred: dict[str, list[dict[str, float]]] = {name: [] for name in numbers.CENTRES}
    for trial in own:
        rounds_s = found[trial]["rounds_s"]
        entry: dict[str, Any] = {"trial": trial.number, "rounds": len(rounds_s)}
        for name in numbers.CENTRES:
            centred[name].append(numbers.step_s(rounds_s, name))
            entry[f"{name}_s"] = centred[name][-1]
        made["trials"].append(entry)
    for name, values in centred.items():
        made[name] = {
            "plain_s": median(v for t in values for v in (t[Kind.PLAIN], t[Kind.AGAIN])),
            "ratio": asdict(numbers.overhead(values)),
            "noise": asdict(numbers.noise(values)),
            "extra_us": numbers.extra_us(values),
            "equivalence": {
                kind: None if test is None else asdict(test)
                for kind, test in numbers.tests(values, settings.margin, num_looks).items()
            },
        }
    return made


def is_decided(cell: Mapping[str, Any]) -> bool:
    """Whether the tests on median steps say that a cell is equivalent, or that it is not."""
    found = cell["median"]["equivalence"]["ratio"]
    return found is not None and found["verdict"] != "undecided"


def record_path(to: Path, environment: Mapping[str, Any], settings: Settings) -> Path:
    """Where the record of this machine is; backends but the usual one have a file each, and so
    has each number of logical workers."""
    backend = "" if settings.backend == _USUAL else f"_{settings.backend}"
    logical = f"_{settings.logical}_logical" if settings.logical else ""
    file = f"{Path(RECORD).stem}{backend}{logical}.json"
    return to / hardware_slug(environment["hardware"]) / NAME / file

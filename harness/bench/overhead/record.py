"""Files of the overhead study: one for each finished trial, and the record of them all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from harness.bench.overhead import numbers
from harness.bench.overhead.settings import Settings
from harness.bench.overhead.trials import Kind, OverheadCell, OverheadTrial, Rounds
from harness.configuration.schema import hash_json
from harness.files.atomic_json import write_json
from harness.machine.manifest import hardware_slug
from harness.results.store import StoreError

NAME = "bench_overhead"
CellRecord = Mapping[str, Any]
"""One workload at one number of workers: its trials, and the estimates from them."""
RECORD = "record.json"
_USUAL = "static"
SCHEMA_VERSION = 4


@dataclass(frozen=True)
class TrialStore:
    """Finished trials below a folder, each in a separate file.

    A trial is returned in the form of the record: its numbers by each centre of ``numbers``, its
    ``rounds``, commit, load and conditions. ``sitting`` is the start time of the command that
    measured the trial.
    """

    folder: Path
    environment: Mapping[str, Any]
    """Description of this machine and this code, as in every manifest."""
    settings: Settings
    earlier: Mapping[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    """Trials of an earlier record that count as finished, by conditions and number."""

    def conditions(self, trial: OverheadTrial) -> str:
        """Return a hash of all that a trial depends on: machine, libraries, settings."""
        return self._conditions(trial.cell.workload, trial.cell.facts)

    def counts(self, cell: CellRecord) -> bool:
        """Return whether all trials of a record's cell have the current conditions."""
        made = {"workload", "trials", *numbers.CENTRES}
        facts = {key: value for key, value in cell.items() if key not in made}
        own = self._conditions(cell["workload"], facts)
        return all(entry["conditions"] == own for entry in cell["trials"])

    def _conditions(self, workload: str, facts: Mapping[str, Any]) -> str:
        hardware = self.environment["hardware"]
        packages = self.environment["packages"]
        used = self.settings
        conditions = [
            *(used.recorded_reference, used.backend, used.turn_of(workload), used.drop),
            *(facts, self.environment["python"]),
            *(hardware["cpu"], hardware["cores"], packages.get("torch")),
        ]
        return hash_json(conditions)[:8]

    def path(self, trial: OverheadTrial) -> Path:
        """Return the file of a trial."""
        return self.folder / f"{trial.name}-{self.conditions(trial)}.json"

    def find(self, trial: OverheadTrial) -> Mapping[str, Any] | None:
        """Return the numbers of a finished trial, or None.

        Raises:
            StoreError: the file is damaged.
        """
        path, conditions = self.path(trial), self.conditions(trial)
        if not path.is_file():
            return self.earlier.get((conditions, trial.number))
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            rounds_s = document["rounds_s"]
            assert all(set(periods) == set(Kind) for periods in rounds_s)
            return {
                "trial": trial.number,
                "conditions": conditions,
                "sitting": document["sitting"],
                "git_commit": document["git_commit"],
                "git_dirty": document["git_dirty"],
                "load_1min": float(document["load_before"]["load_1min"]),
                "rounds": len(rounds_s),
                **{centre: numbers.of_trial(rounds_s, centre) for centre in numbers.CENTRES},
            }
        except (OSError, ValueError, KeyError, TypeError, AssertionError):
            hint = "remove it and run the command again"
            raise StoreError(f"{path}: is damaged; {hint}") from None

    def add(self, trial: OverheadTrial, rounds_s: Rounds, load: Mapping[str, float]) -> None:
        """Write a finished trial, in one step."""
        document = {
            "workload": trial.cell.workload,
            "trial": trial.number,
            **trial.cell.facts,
            "sitting": self.environment["created"],
            "git_commit": self.environment["git_commit"],
            "git_dirty": self.environment["git_dirty"],
            "load_before": dict(load),
            "rounds_s": rounds_s,
        }
        write_json(self.path(trial), document)


def cells_of_record(path: Path) -> list[CellRecord]:
    """Return the cells of a record; an empty list if there is no record.

    Raises:
        StoreError: the record is damaged, or has a version whose trials have another meaning.
    """
    if not path.is_file():
        return []
    hint = "leave --continue out to measure again, or give another --to"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["schema_version"] != SCHEMA_VERSION:
            fact = f"is of version {record['schema_version']}, not {SCHEMA_VERSION}"
            raise StoreError(f"{path}: {fact}; {hint}")
        cells: list[CellRecord] = record["cells"]
        for cell in cells:
            # Read every field that is used later, so that a damaged record fails here.
            name_of(cell)
            trials_of([cell])
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(f"{path}: is damaged; {hint}") from None
    return cells


def trials_of(cells: Sequence[CellRecord]) -> dict[tuple[str, int], Mapping[str, Any]]:
    """Return the trials of a record's cells, by conditions and number."""
    entries = [entry for cell in cells for entry in cell["trials"]]
    return {(entry["conditions"], entry["trial"]): entry for entry in entries}


def make_record(
    settings: Settings,
    found: Mapping[OverheadTrial, Mapping[str, Any]],
    environment: Mapping[str, Any],
    earlier: Sequence[CellRecord] = (),
) -> dict[str, Any]:
    """Return the record of the study.

    Args:
        settings: settings of this command.
        found: finished trials of this command.
        environment: description of this machine and this code.
        earlier: cells of the previous record; cells that this command did not measure are kept.
    """
    made = [_cell_record(cell, settings, found) for cell in dict.fromkeys(t.cell for t in found)]
    measured = {name_of(cell) for cell in made}
    cells = [*made, *(cell for cell in earlier if name_of(cell) not in measured)]
    entries = [entry for cell in cells for entry in cell["trials"]]
    loads = [entry["load_1min"] for entry in entries if entry["load_1min"] is not None]
    return {
        "name": NAME,
        "schema_version": SCHEMA_VERSION,
        **environment,
        "settings": asdict(settings),
        "commits": sorted({str(entry["git_commit"]) for entry in entries}),
        "any_dirty": any(entry["git_dirty"] for entry in entries),
        "load_1min": {
            "min": min(loads, default=None),
            "median": median(loads) if loads else None,
            "max": max(loads, default=None),
        },
        "cells": cells,
    }


def name_of(cell: CellRecord) -> tuple[str, int]:
    """Return the cell's workload and number of workers."""
    return cell["workload"], cell["num_workers"]


def _cell_record(
    cell: OverheadCell, settings: Settings, found: Mapping[OverheadTrial, Mapping[str, Any]]
) -> dict[str, Any]:
    own = sorted((trial for trial in found if trial.cell is cell), key=lambda t: t.number)
    entries = [found[trial] for trial in own]
    made: dict[str, Any] = {"workload": cell.workload, **cell.facts, "trials": entries}
    looks = settings.looks
    # Judge only the trials up to the last complete look: each look spends a share of alpha.
    judged = max((look for look in looks if look <= len(entries)), default=0)
    for name in numbers.CENTRES:
        values = [entry[name] for entry in entries]
        tests = numbers.tests(values[:judged], settings.margin, len(looks))
        made[name] = {
            "plain_s": median(of_trial["plain_s"] for of_trial in values),
            "ratio": asdict(numbers.overhead(values)),
            "noise": asdict(numbers.noise(values)),
            "extra_us": numbers.extra_us(values),
            "equivalence": {
                kind: None if test is None else asdict(test) for kind, test in tests.items()
            },
        }
    return made


def is_decided(cell: Mapping[str, Any]) -> bool:
    """Return whether the tests on median steps have reached a verdict about a cell."""
    found = cell["median"]["equivalence"]["ratio"]
    return found is not None and found["verdict"] != "undecided"


def record_path(to: Path, environment: Mapping[str, Any], settings: Settings) -> Path:
    """Return the file of this machine's record.

    Each backend other than the default has its own file, and so has each number of logical workers.
    """
    backend = "" if settings.backend == _USUAL else f"_{settings.backend}"
    logical = f"_{settings.logical}_logical" if settings.logical else ""
    file = f"{Path(RECORD).stem}{backend}{logical}.json"
    return to / hardware_slug(environment["hardware"]) / NAME / file

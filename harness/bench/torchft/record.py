"""Files of the comparison: one for each finished trial, and the record of all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from harness.bench.torchft.courses import Course, CourseError, Step, costs
from harness.bench.torchft.trials import Cell, Outcome, Settings, System, Trial, defaults
from harness.configuration.schema import hash_json
from harness.files.atomic_json import write_json
from harness.machine.manifest import hardware_slug
from harness.results.store import StoreError

NAME, RECORD = "torchft", "record.json"
SCHEMA_VERSION = 1
_OF_A_SITTING = ("workloads", "trials")
"""Settings that do not change the meaning of a trial."""


@dataclass(frozen=True)
class TrialFiles:
    """Finished trials below a folder, in files whose names have a hash of all conditions."""

    folder: Path
    settings: Settings
    environment: Mapping[str, Any]
    """Description of this machine and this code, as in every manifest."""

    def path(self, trial: Trial) -> Path:
        """Return the file of a trial."""
        facts = [trial.cell.facts, *conditions(asdict(self.settings), self.environment)]
        return self.folder / f"{trial.name}-{hash_json(facts)[:8]}.json"

    def find(self, trial: Trial) -> Mapping[str, Any] | None:
        """Return the numbers of a finished trial, or None.

        Raises:
            StoreError: the file is damaged.
        """
        path = self.path(trial)
        if not path.is_file():
            return None
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            own = {str(system): _said(document["systems"][system]) for system in System}
            about = {key: document[key] for key in ("created", "git_commit", "git_dirty")}
            load = float(document["load_before"]["load_1min"])
        except (OSError, ValueError, KeyError, TypeError):
            raise StoreError(f"{path}: is damaged; remove it, give the command again") from None
        return {"trial": trial.number, **about, "load_1min": load, **own}

    def add(
        self, trial: Trial, outcomes: Mapping[System, Outcome], load: Mapping[str, float]
    ) -> None:
        """Write a finished trial with every committed step, in one step."""
        about = {key: self.environment[key] for key in ("created", "git_commit", "git_dirty")}
        systems = {system: _document(outcome) for system, outcome in outcomes.items()}
        document = {**about, "load_before": dict(load), "systems": systems}
        write_json(self.path(trial), document)


def conditions(settings: Mapping[str, Any], environment: Mapping[str, Any]) -> list[Any]:
    """Return everything that the trials of all workloads depend on."""
    own = {key: value for key, value in settings.items() if key not in _OF_A_SITTING}
    slug = hardware_slug(environment["hardware"])
    return [own, environment["packages"], environment["python"], slug]


def _document(outcome: Outcome) -> dict[str, Any]:
    course = outcome.course
    if course is None:
        return {"error": outcome.error}
    steps = [[step.started_s, step.ended_s, step.num_workers] for step in course.steps]
    moments = {"asked_s": course.asked_s, "killed_s": course.killed_s}
    return {"victim": outcome.victim, **moments, "steps": steps}


def _said(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the costs from one system's part of a trial, or its error."""
    if "error" in document:
        return {"error": document["error"]}
    steps = [Step(*step) for step in document["steps"]]
    try:
        found = costs(Course(steps, document["asked_s"], document["killed_s"]))
    except CourseError as error:
        return {"error": str(error)}
    return {"victim": document["victim"], **found}


def cells_of_record(path: Path, files: TrialFiles) -> list[dict[str, Any]]:
    """Return the workloads of a record; none if it was measured under other conditions.

    Raises:
        StoreError: the record is damaged.
    """
    if not path.is_file():
        return []
    own = conditions(asdict(files.settings), files.environment)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        found: list[dict[str, Any]] = record["cells"]
        return found if conditions(record["settings"], record) == own else []
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(f"{path}: is damaged; give another --to, or --force") from None


def make_record(
    files: TrialFiles,
    cells: Sequence[Cell],
    found: Mapping[Trial, Mapping[str, Any]],
    earlier: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return the record of the comparison.

    Args:
        files: of its trials.
        cells: the workloads.
        found: numbers of finished trials.
        earlier: cells of the previous record. A workload keeps its earlier cell if that has more
            trials, or if the workload is not in ``cells``.
    """
    made = []
    for cell in cells:
        own = sorted((trial for trial in found if trial.cell is cell), key=lambda t: t.number)
        if own:
            trials = [found[trial] for trial in own]
            medians = {system: _medians(trials, system) for system in System}
            about = {"workload": cell.workload, **cell.facts}
            made.append({**about, "medians": medians, "trials": trials})
    kept = {each["workload"]: each for each in earlier}
    made = [max(each, kept.pop(each["workload"], each), key=_num_trials) for each in made]
    made += kept.values()
    settings = asdict(files.settings) | {"workloads": [each["workload"] for each in made]}
    about = {"name": NAME, "schema_version": SCHEMA_VERSION, **files.environment}
    return {**about, "settings": settings, "cells": made}


def _num_trials(cell: Mapping[str, Any]) -> int:
    return len(cell["trials"])


def _medians(trials: Sequence[Mapping[str, Any]], system: System) -> dict[str, Any]:
    """Return medians over the completed trials, and the numbers of completed and failed ones."""
    whole = [trial[system] for trial in trials if "error" not in trial[system]]
    keys = [key for key in whole[0] if key != "victim"] if whole else []
    counted = {"trials": len(whole), "failed": len(trials) - len(whole)}
    return {**counted, **{key: median(own[key] for own in whole) for key in keys}}


def record_path(to: Path, files: TrialFiles) -> Path:
    """Return the file of this machine's record; its name has all settings that are not defaults."""
    own, usual = asdict(files.settings), defaults()
    parts = [
        value if isinstance(value, str) else f"{key}_{value:g}"
        for key, value in own.items()
        if key in usual and key not in (*_OF_A_SITTING, "module", "seed") and value != usual[key]
    ]
    file = f"{'_'.join([Path(RECORD).stem, *parts])}.json"
    return to / hardware_slug(files.environment["hardware"]) / NAME / file

"""Outcomes of trainings on fixed workers, kept in a folder so that no training runs twice.

Each training has one file, ``KEY.jsonl``: the lines that the program wrote, which ``python -m
harness.consistency`` reads. The last line has the digests, with the training and what made it. A
file appears as a whole or not at all. The key depends on everything that affects the bits: the
training, the program and its source, the source next to the workload, the libraries, the processor.
A change of any of them leads to a new training.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.schema import hash_json
from harness.contracts.abilities import Reference
from harness.engines.live.reference_run import FixedTraining, FixedTrainingError, train_fixed
from harness.machine.manifest import hardware, package_versions

DIGEST = "digest_"
"""Prefix of the names of digests."""
_LIBRARIES = ("numpy", "torch", "torchvision", "transformers")
_PROCESSOR = ("machine", "cpu", "accelerators")
_KEY_LENGTH = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a training."""

    key: str
    losses: Sequence[Sequence[str]]
    """Losses of every worker by step, as ``float.hex``."""
    means: Sequence[str]
    """Mean loss of the global batch by step, as ``float.hex``."""
    digests: Mapping[str, str]


class FixedOutcomes:
    """Store of outcomes in one folder; the module's docstring describes its files."""

    def __init__(self, folder: Path, program: Reference) -> None:
        """Use ``folder`` for the outcomes and ``program`` for the trainings."""
        self._folder = folder
        self._program = program
        machine = hardware()
        versions = package_versions()
        self._made_with = {
            "module": program.module,
            "words": list(program.words),
            "env": dict(program.env),
            "source": _digest([_file_of(program.module)]),
            "libraries": {name: versions.get(name) for name in _LIBRARIES},
            "processor": {name: machine[name] for name in _PROCESSOR},
        }

    def find(self, training: FixedTraining) -> Outcome | None:
        """Return the outcome if this training was done before."""
        key = self._key(training)
        try:
            lines = self._path(key).read_text(encoding="utf-8").splitlines()
            return _outcome(key, [json.loads(line) for line in lines])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # missing or damaged: the training runs again and overwrites it

    def train(
        self,
        training: FixedTraining,
        cores: Sequence[int],
        environment: Mapping[str, str],
        scratch: Path,
    ) -> Outcome:
        """Run the training now, and keep its outcome.

        Args:
            training: the training to run.
            cores: one for each worker; empty: not pinned.
            environment: variables in addition to those of this process.
            scratch: folder for the program's output and its log.

        Raises:
            FixedTrainingError: the program failed.
        """
        key = self._key(training)
        out = scratch / f"{key}.jsonl"
        lines = train_fixed(training, self._program, cores, environment, out)
        try:
            outcome = _outcome(key, lines)
        except (ValueError, KeyError) as error:
            raise FixedTrainingError(
                f"{self._program.module} wrote no losses or no digests to {out} ({error!r});"
                " harness.contracts.abilities.Reference says what it has to write"
            ) from error
        lines[-1] |= {"training": training.facts, "made_with": self._made_with}
        self._folder.mkdir(parents=True, exist_ok=True)
        # Renamed only once it is complete, under a name that no other process uses: two commands
        # may train the same reference at once.
        partial = self._folder / f".{key}-{os.getpid()}"
        partial.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        partial.replace(self._path(key))
        return outcome

    def _key(self, training: FixedTraining) -> str:
        beside = _file_of(training.target.rpartition(".")[0])
        is_packaged = beside is not None and "." in training.target.rpartition(".")[0]
        files = sorted(beside.parent.rglob("*.py")) if beside and is_packaged else [beside]
        facts: dict[str, Any] = {**self._made_with, **training.facts, "beside": _digest(files)}
        return hash_json(facts)[:_KEY_LENGTH]

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.jsonl"


def _outcome(key: str, lines: Sequence[Mapping[str, Any]]) -> Outcome:
    """Return the outcome in the lines of a program.

    Raises:
        ValueError, KeyError: something is missing.
    """
    *steps, end = lines
    digests = {name: value for name, value in end.items() if name.startswith(DIGEST)}
    if not digests:
        raise ValueError("no digests")
    losses = [line["losses"] for line in steps]
    return Outcome(key, losses, [line["loss"] for line in steps], digests)


def _file_of(module: str) -> Path | None:
    """Return the file of a module without importing the module; None if it has none."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        for path in (Path(folder, *rest).with_suffix(".py"), Path(folder, *rest, "__init__.py")):
            if path.is_file():
                return path
    return None


def _digest(files: Sequence[Path | None]) -> str:
    state = hashlib.sha256()
    for path in files:
        if path is not None:
            state.update(f"{path.name}\n".encode() + path.read_bytes())
    return state.hexdigest()

"""What trainings on fixed workers ended with, kept in a folder: none is done twice.

One file a training, ``KEY.jsonl``: what the program wrote (``python -m harness.consistency`` reads
it), its last line with what was trained and with what beside the digests. It is there as a whole or
not at all. The key is made of all that the bits depend on: the training, the program and its
source, the source beside the workload, the libraries, the processor. So what changes one of them
is not held to what was trained before.
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

from harness.config import hash_json
from harness.contracts.training import Reference
from harness.fixed_training import FixedTraining, FixedTrainingError, train_fixed
from harness.manifest import hardware, package_versions

DIGEST = "digest_"
"""How the names of digests begin."""
_LIBRARIES = ("numpy", "torch", "torchvision", "transformers")
_PROCESSOR = ("machine", "cpu", "accelerators")
_KEY_LENGTH = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a training ended with."""

    key: str
    losses: Sequence[Sequence[str]]
    """By step, of every worker, as ``float.hex``."""
    means: Sequence[str]
    """The global batch's mean loss by step, as ``float.hex``."""
    digests: Mapping[str, str]


class FixedOutcomes:
    """See the module's text."""

    def __init__(self, folder: Path, program: Reference) -> None:
        """Args: ``folder`` keeps the outcomes; ``program`` does the training."""
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
        """The outcome, if this was trained before."""
        key = self._key(training)
        try:
            lines = self._path(key).read_text(encoding="utf-8").splitlines()
            return _outcome(key, [json.loads(line) for line in lines])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # not there, or damaged by hand: trained again, and written over

    def train(
        self,
        training: FixedTraining,
        cores: Sequence[int],
        environment: Mapping[str, str],
        scratch: Path,
    ) -> Outcome:
        """Train it now, and keep the outcome.

        Args:
            training: what.
            cores: one for each worker; empty: not pinned.
            environment: variables besides those of this process.
            scratch: folder for what the program writes, and for its log.

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
                " harness.contracts.training.Reference says what it has to write"
            ) from error
        lines[-1] |= {"training": training.facts, "made_with": self._made_with}
        self._folder.mkdir(parents=True, exist_ok=True)
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
    """From the lines of a program. Raises ValueError or KeyError: something is missing."""
    *steps, end = lines
    digests = {name: value for name, value in end.items() if name.startswith(DIGEST)}
    if not digests:
        raise ValueError("no digests")
    losses = [line["losses"] for line in steps]
    return Outcome(key, losses, [line["loss"] for line in steps], digests)


def _file_of(module: str) -> Path | None:
    """The file of a module, which is not imported for that; None if it has none."""
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

"""Training on a fixed number of workers, and the stand-alone program that does it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.contracts.abilities import Reference
from harness.errors import RunError
from harness.machine.child_process import PointProcess

_LOG_LINES = 6


class FixedTrainingError(RunError):
    """Failure of the program before the end of training; the text has its last output and log."""


@dataclass(frozen=True, slots=True)
class FixedTraining:
    """Training to do: with the program and the machine, everything on which its bits depend."""

    target: str
    """Class of the workload, ``package.module.Class``."""
    options: Mapping[str, Any]
    """Options of the workload's class."""
    seed: int
    num_workers: int
    global_batch: int
    num_steps: int

    @property
    def facts(self) -> dict[str, Any]:
        """Fields of the training as plain values."""
        return {**asdict(self), "options": dict(self.options)}


def train_fixed(
    training: FixedTraining,
    program: Reference,
    cores: Sequence[int],
    environment: Mapping[str, str],
    out: Path,
) -> list[dict[str, Any]]:
    """Run the training in processes that end with this one, and return the lines that the program
    wrote.

    Args:
        training: the training.
        program: the program that does it.
        cores: one for each worker; empty: not pinned.
        environment: variables in addition to those of this process.
        out: file to be written; a log is written next to it.

    Raises:
        FixedTrainingError: the program failed.
    """
    process = fixed_process(training, program, cores, environment, out)
    try:
        process.start()
        process.wait()
    finally:
        # Also after a good end: this kills the whole process group, with workers that are left.
        process.kill()
    return read_lines(process, out)


def fixed_process(
    training: FixedTraining,
    program: Reference,
    cores: Sequence[int],
    environment: Mapping[str, str],
    out: Path,
) -> PointProcess:
    """Return the process of the training, not started yet; arguments are as for ``train_fixed``."""
    out.parent.mkdir(parents=True, exist_ok=True)
    # The file of an earlier attempt must not pass for this training's result.
    out.unlink(missing_ok=True)
    words = [
        *(training.target, "--options", json.dumps(dict(training.options))),
        *("--workers", str(training.num_workers), "--cores", *map(str, cores)),
        *("--steps", str(training.num_steps), "--batch", str(training.global_batch)),
        *("--seed", str(training.seed), "--out", str(out), *program.words),
    ]
    variables = {**environment, **program.env}
    return PointProcess(words, out.with_suffix(".log"), program.module, variables)


def read_lines(process: PointProcess, out: Path) -> list[dict[str, Any]]:
    """Return the lines that a process which has ended wrote.

    Raises:
        FixedTrainingError: it failed.
    """
    code = process.returncode
    if code != 0 or not out.is_file():
        said = "\n".join(process.tail(_LOG_LINES))
        raise FixedTrainingError(
            f"{process.module} ended with {code}; log: {process.log_path}\n{said}"
        )
    with out.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]

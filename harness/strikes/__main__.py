"""``python -m harness.strikes``: run live replays under faults from outside, and check the
results."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from harness.bench.trial_loop import exit_code, one_by_one, only_writer
from harness.files.atomic_json import write_json
from harness.machine.interrupts import interruptible, run_command
from harness.machine.manifest import environment, machine_load
from harness.strikes.plan import draw
from harness.strikes.trial import run_trial

_TRIALS: Final = "trials.jsonl"
_DISK_BYTES: Final = 96 * 2**20
_GUESS_S: Final = 30.0
"""Assumed seconds of a trial until one has been measured."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the trials that are not recorded yet; return the exit code."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.trials < 1 or min(options.only or [0]) < 0:
        parser.error("--trials is at least 1, and the number of a trial at least 0")
    with only_writer(options.out):
        return _strike(options)


def _strike(options: argparse.Namespace) -> int:
    path = options.out / _TRIALS
    trials = read_trials(path)
    numbers = options.only or [number for number in range(options.trials) if number not in trials]
    commit = environment([])["git_commit"]
    with _small_disk() as (disk, can_fill):

        def run(number: int) -> str:
            folder, logs = disk / f"trial-{number}", path.parent / f"trial-{number}"
            shutil.rmtree(logs, ignore_errors=True)
            logs.mkdir(parents=True)
            trial = run_trial(draw(number, can_fill=can_fill), folder, logs).record()
            if trial["is_right"]:
                shutil.rmtree(logs)
            else:
                shutil.copytree(folder, logs / "results")
            shutil.rmtree(folder)
            _add(path, trial | {"commit": commit})
            trials[number] = trial
            return "; ".join(trial["problems"]) or "right"

        one_by_one(numbers, len(trials), lambda number: f"trial {number}", run, _GUESS_S)
    wrong = sorted(number for number, trial in trials.items() if not trial["is_right"])
    total = sum(
        len(command["struck"]) for trial in trials.values() for command in trial["commands"]
    )
    print(f"{total} strikes in {len(trials)} trials; wrong: {wrong or 'none'}; record: {path}")
    return 1 if wrong else 0


def read_trials(path: Path) -> dict[int, Mapping[str, Any]]:
    """Return the recorded trials by number; if several have one number, the last counts."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {trial["number"]: trial for trial in map(json.loads, lines)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.strikes",
        description=(
            "Strikes live replays from outside: SIGKILL and SIGSTOP of workers, stores, fork "
            "servers and the command itself, and a full disk. Every command has to end in time "
            "and leave no process. It finishes its run, or gives the reason of the failure, and "
            "then the same command finishes the run."
        ),
        epilog=(
            "Trials are kept: after a stop, the same command continues. The logs of a wrong trial "
            "stay next to the record. A disk is filled only where this user may mount one. Exit "
            "codes: 0 all trials are right; 1 some are wrong; 130 or 143 stopped."
        ),
    )
    parser.add_argument(
        "--trials", type=int, default=6, metavar="N",
        help="number of recorded trials to reach, each of up to 14 strikes: 6",
    )  # fmt: skip
    parser.add_argument(
        "--only", type=int, nargs="+", metavar="NUMBER", help="run these trials (again)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results/strikes"), metavar="DIR",
        help="folder of the record: results/strikes",
    )  # fmt: skip
    return parser


def _add(path: Path, trial: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = path.with_name("machine.json")
    if not machine.exists():
        write_json(machine, environment(["python", "-m", "harness.strikes"]) | machine_load())
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(trial) + "\n")
        # Written to the disk at once: a finished trial must survive a crash in the next one.
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _small_disk() -> Iterator[tuple[Path, bool]]:
    """Yield a folder, and whether it is on a separate small disk that can be filled.

    The disk needs a mount, which not every user may make.
    """
    with tempfile.TemporaryDirectory(prefix="elastrace-strikes-") as name:
        folder = Path(name)
        size = f"size={_DISK_BYTES}"
        words = ["mount", "-t", "tmpfs", "-o", size, "elastrace-strikes", str(folder)]
        can_fill = (
            shutil.which("mount") is not None
            and not subprocess.run(words, capture_output=True, check=False).returncode
        )
        if not can_fill:
            print(
                "no separate disk could be mounted here, so no trial fills a disk", file=sys.stderr
            )
        try:
            yield folder, can_fill
        finally:
            if can_fill:
                subprocess.run(["umount", "--lazy", str(folder)], check=False)


def _guarded() -> int:
    with interruptible():
        return exit_code(main)


if __name__ == "__main__":
    run_command(_guarded)

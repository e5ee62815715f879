"""What a scale-out and a death cost under torchft, for comparison: needs ``elastrace[torchft]``.

    python -m systems.torchft --before 1 --after 2 --trials 3

A trial: a lighthouse and ``before`` replicas train; others join until there are ``after``; one
is killed (SIGKILL) and the others go on. One line of JSON for each trial, times in seconds of
``time.monotonic``, which the processes of one host share.

torchft's replicas are groups of one worker each, with a fixed batch a replica: the global
batch grows with their number, so no job of a trace can be trained by it as it is. Hence a
study of its own and no backend.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from systems.runtime.step_log import read_lines

ADDRESS = "127.0.0.1"
POLL_S = 0.02
TIMEOUT_S = 120.0
STEADY_STEPS = 20


class TrialError(Exception):
    """A trial did not come to its end; the text says where it stood."""


class Trial:
    """Processes of one trial, in a folder of their own."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.folder = folder
        self.arguments = arguments
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, entry: str, *argv: str) -> None:
        """Start a process that dies with this one."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [
                    *(sys.executable, "-u", "-m", "systems.runtime.process", str(os.getpid())),
                    *(",", f"systems.torchft.replica:{entry}", *argv),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def replica(self, name: str, lighthouse: str) -> None:
        """Start a replica."""
        a = self.arguments
        log = str(self.folder / f"{name}.jsonl")
        self.start(
            name, "main", ADDRESS, lighthouse, name, log, a.workload, str(a.batch), a.wrapper
        )

    def steps(self, name: str) -> list[dict[str, Any]]:
        """The steps that a replica has committed."""
        return list(read_lines(self.folder / f"{name}.jsonl"))

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait for something.

        Raises:
            TrialError: it took too long, or every replica has ended.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while not is_so():
            replicas = [p for name, p in self.processes.items() if name != "lighthouse"]
            if replicas and all(process.poll() is not None for process in replicas):
                raise TrialError(f"waiting for {what}: every replica has ended")
            if time.monotonic() > deadline:
                raise TrialError(f"waiting for {what}: not within {TIMEOUT_S:g} s")
            time.sleep(POLL_S)

    def trained(self, name: str, replicas: int, since: float) -> bool:
        """Whether a replica has committed enough steps with so many others since then."""
        found = [s for s in self.steps(name) if s["replicas"] == replicas and s["started"] > since]
        return len(found) >= STEADY_STEPS

    def close(self) -> None:
        """Kill what is left."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


def longest_gap_s(steps: list[dict[str, Any]], since: float, until: float) -> float:
    """Longest time between the ends of two steps that follow each other."""
    ends = [step["ended"] for step in steps if since <= step["ended"] <= until]
    return max((b - a for a, b in pairwise(ends)), default=0.0)


def run(trial: Trial) -> dict[str, Any]:
    """One trial.

    Raises:
        TrialError: see ``Trial.until``.
    """
    before, after = trial.arguments.before, trial.arguments.after
    address = trial.folder / "address"
    trial.start("lighthouse", "lighthouse", ADDRESS, str(address), str(trial.arguments.heartbeat_s))
    trial.until("the lighthouse", address.exists)
    where = address.read_text(encoding="utf-8")
    names = [f"r{number}" for number in range(after)]
    for name in names[:before]:
        trial.replica(name, where)
    trial.until("the first replicas", lambda: trial.trained("r0", before, 0.0))
    asked = time.monotonic()
    for name in names[before:]:
        trial.replica(name, where)
    trial.until("those that join", lambda: trial.trained("r0", after, asked))
    steps = trial.steps("r0")
    joined = next(s for s in steps if s["replicas"] == after and s["started"] > asked)
    scaled_out = {
        "scaling_time_s": joined["ended"] - asked,
        "pause_s": longest_gap_s(steps, joined["ended"] - 5.0, steps[-1]["ended"]),
        "step_before_s": _median_step_s([s for s in steps if s["ended"] < asked]),
    }
    killed = time.monotonic()
    trial.processes[names[-1]].send_signal(signal.SIGKILL)
    trial.until("the survivors", lambda: trial.trained("r0", after - 1, killed))
    steps = trial.steps("r0")
    last = max(s["ended"] for s in steps if s["replicas"] == after)
    first = next(s for s in steps if s["replicas"] == after - 1 and s["started"] > last - 1e-6)
    return scaled_out | {
        "recovery_s": first["ended"] - killed,
        "crashed": [n for n in names[:-1] if trial.processes[n].poll() is not None],
    }


def _median_step_s(steps: list[dict[str, Any]]) -> float:
    periods = sorted(b["ended"] - a["ended"] for a, b in pairwise(steps))
    return periods[len(periods) // 2] if periods else 0.0


def main() -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m systems.torchft", description=__doc__)
    parser.add_argument("--before", type=int, default=1, help="replicas at first")
    parser.add_argument("--after", type=int, default=2, help="replicas after the scale-out")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--workload", default="workloads.toy.Toy", help="package.module.Class")
    parser.add_argument("--batch", type=int, default=16, help="samples a replica and step")
    parser.add_argument("--wrapper", choices=("ddp", "pure"), default="pure")
    parser.add_argument(
        "--heartbeat-s", type=float, default=5.0, help="silence after which a replica is dead"
    )
    arguments = parser.parse_args()
    if not 1 <= arguments.before < arguments.after:
        parser.error("--after must be larger than --before, which must be at least 1")
    if importlib.util.find_spec("torchft") is None:
        print("torchft is not installed; pip install 'elastrace[torchft]'", file=sys.stderr)
        return 2
    failed = 0
    for number in range(arguments.trials):
        with tempfile.TemporaryDirectory(prefix="torchft-") as folder:
            trial = Trial(Path(folder), arguments)
            try:
                result = run(trial)
            except TrialError as error:
                result, failed = {"error": str(error)}, failed + 1
            finally:
                trial.close()
        print(json.dumps({"trial": number, "wrapper": arguments.wrapper, **result}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

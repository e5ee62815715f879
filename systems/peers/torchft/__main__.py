"""A training under torchft that grows, and then loses a replica; for ``harness.bench.torchft``.

    python -m systems.peers.torchft workloads.toy.Toy --replicas 2 --out course.json

A lighthouse and one replica train, and others join up to ``--replicas``. The last replica is then
killed (SIGKILL), and the others continue. The output has the times of these events, and the steps
that the first replica committed. Times are seconds of ``time.monotonic``, which the processes of
one host share. The command needs ``elastrace[torchft]``.

torchft's replicas are groups of one worker each, with a fixed batch for each replica. The global
batch grows with their number, so torchft cannot train a job of a trace as it is. That is why it is
not a backend.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import RunError
from harness.machine.interrupts import Interrupted, interruptible, run_command
from systems.peers.torchft.replica import WRAPPERS
from systems.runtime.wire.step_log import LineReader

ADDRESS = "127.0.0.1"
POLL_S = 0.02
TIMEOUT_S = 120.0
STEPS_AFTER = 40
"""Steps of the surviving replicas after the kill."""
_ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "RUST_LOG": "warn",  # else the lighthouse logs a line for every step
}


class TrialError(RunError):
    """Error for a trial that did not complete; the text says at which point."""


class Trial:
    """Processes of one trial, in a folder of their own, and the steps of the first replica."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.folder = folder
        self.arguments = arguments
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.steps: list[dict[str, Any]] = []
        self._reader = LineReader(folder / "r0.jsonl")

    def start(self, name: str, core: str, entry: str, *argv: str) -> None:
        """Start a process that dies with this one, pinned to ``core`` unless that is empty."""
        self.processes[name] = subprocess.Popen(
            [
                *(sys.executable, "-u", "-m", "systems.runtime.wire.process", str(os.getpid())),
                *(core, f"systems.peers.torchft.replica:{entry}", *argv),
            ],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            env={**os.environ, **_ENVIRONMENT},
        )

    def lighthouse(self) -> str:
        """Start the lighthouse and return its address."""
        address = self.folder / "address"
        heartbeat_s = str(self.arguments.heartbeat_s)
        self.start("lighthouse", "", "lighthouse", ADDRESS, str(address), heartbeat_s)
        for _ in self.polls("the lighthouse"):
            if address.exists():
                break
        return address.read_text(encoding="utf-8")

    def replica(self, number: int, lighthouse: str) -> None:
        """Start a replica."""
        a, name = self.arguments, f"r{number}"
        core = str(a.cores[number]) if a.cores else ""
        where = (ADDRESS, lighthouse, name, str(self.folder / f"{name}.jsonl"))
        training = (a.workload, json.dumps(a.options), str(a.batch), str(number), str(a.replicas))
        self.start(name, core, "main", *where, *training, a.wrapper)

    def polls(self, what: str) -> Iterator[None]:
        """Yield at every moment to check for an event, until the caller stops.

        Raises:
            TrialError: the wait took too long, or a process ended that was not killed on purpose.
        """
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            yield
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended:
                raise TrialError(f"waiting for {what}: {' and '.join(ended)} ended")
            time.sleep(POLL_S)
        raise TrialError(f"waiting for {what}: not within {TIMEOUT_S:g} s")

    def train(self, replicas: int, steps: int, seconds: float = 0.0) -> None:
        """Wait for steps with all these replicas, and for some seconds since the first of them."""
        count, since_s = 0, 0.0
        for _ in self.polls(f"{steps} steps of {replicas} replicas"):
            new = [*self._reader.new()]
            self.steps += new
            own = [step for step in new if step["replicas"] == replicas]
            if own and not count:
                since_s = own[0]["ended"]
            count += len(own)
            if count >= steps and time.monotonic() - since_s >= seconds:
                return

    def close(self) -> None:
        """Kill all remaining processes."""
        for process in self.processes.values():
            process.kill()
            process.wait()


def run(trial: Trial) -> dict[str, Any]:
    """Run one trial; return the times of the scale-out and of the kill, and all steps.

    Raises:
        TrialError: see ``Trial.polls``.
    """
    a = trial.arguments
    where = trial.lighthouse()
    trial.replica(0, where)
    trial.train(1, a.steps)
    asked_s = time.monotonic()
    for number in range(1, a.replicas):
        trial.replica(number, where)
    trial.train(a.replicas, a.steps, a.settle_s)
    # Not in ``processes`` any more: ``polls`` takes the end of any process there for a failure.
    victim = trial.processes.pop(f"r{a.replicas - 1}")
    killed_s = time.monotonic()
    victim.kill()
    victim.wait()
    trial.train(a.replicas - 1, STEPS_AFTER)
    steps = [(step["started"], step["ended"], step["replicas"]) for step in trial.steps]
    return {"asked_s": asked_s, "killed_s": killed_s, "steps": steps}


def _options(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("give a JSON object")
    return found


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m systems.peers.torchft",
        description="Grow a training under torchft, and kill a replica.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("workload", help="package.module.Class")
    parser.add_argument("--options", type=_options, default={}, help="of the class, as JSON")
    parser.add_argument("--replicas", type=int, default=2, help="after the scale-out, from one")
    parser.add_argument("--batch", type=int, default=16, help="samples a replica and step")
    wrappers = "; ".join(f"{name}: {text}" for name, text in WRAPPERS.items())
    parser.add_argument("--wrapper", choices=[*WRAPPERS], default="flat", help=wrappers)
    parser.add_argument(
        "--heartbeat-s", type=float, default=5.0, help="silence after which a replica is dead"
    )
    parser.add_argument(
        "--steps", type=int, default=60, help="before others join, and of all before one is killed"
    )
    parser.add_argument(
        "--settle-s", type=float, default=2.0, help="of training by all before one is killed"
    )
    parser.add_argument(
        "--cores", type=int, nargs="*", default=[], help="one for each replica; none: not pinned"
    )
    parser.add_argument("--out", type=Path, required=True, help="file to write, JSON")
    return parser


def main() -> int:
    """Run the command and return the exit code."""
    parser = build_parser()
    arguments = parser.parse_args()
    if arguments.replicas < 2:
        parser.error(f"--replicas is {arguments.replicas}; give 2 or more")
    if arguments.cores and len(arguments.cores) < arguments.replicas:
        parser.error(
            f"--cores names {len(arguments.cores)} cores for {arguments.replicas} replicas"
        )
    if not arguments.out.parent.is_dir():
        parser.error(f"--out: there is no folder {arguments.out.parent}")
    if importlib.util.find_spec("torchft") is None:
        parser.error("torchft is not installed; pip install 'elastrace[torchft]'")
    with tempfile.TemporaryDirectory(prefix="torchft-") as folder:
        trial = Trial(Path(folder), arguments)
        try:
            with interruptible():
                course = run(trial)
        except TrialError as error:
            print(error, file=sys.stderr)
            return 1
        except Interrupted as interrupted:
            return interrupted.exit_code
        finally:
            trial.close()
    arguments.out.write_text(json.dumps(course), encoding="utf-8")
    return 0


if __name__ == "__main__":
    run_command(main)

"""``python -m harness.strikes.soak``: check that resources do not grow under strikes."""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import psutil

from harness.bench.trial_loop import exit_code, one_by_one, only_writer
from harness.errors import Problem, UserError
from harness.files.atomic_json import write_json
from harness.machine.interrupts import interruptible, run_command
from harness.machine.manifest import environment
from harness.strikes.plan import BACKENDS, How, Strike, Victim
from harness.strikes.running import Running
from harness.strikes.trial import TRACE, WORDS
from harness.strikes.victims import below

_STREAM: Final = 0x50AC
_SAMPLE_EVERY_S: Final = 2.0
_ARRIVALS_EVERY_S: Final = 4.0
"""Mean seconds from one job to the next."""
_STRIKES_EVERY_S: Final = 20.0
"""Mean seconds from one strike to the next. Strikes must leave every job time for progress: the run
fails once the machine has failed a job five times without progress."""
_CHECKPOINTS: Final = "backend.checkpoint_every=200"
"""Override that lets a job keep its progress when all its workers are killed. ``static`` has no
checkpoints."""
_STRUCK: Final = (
    (Victim.WORKER, How.KILL, 0.6),
    (Victim.WORKER, How.STOP, 0.2),
    (Victim.STORE, How.KILL, 0.1),
    (Victim.FORK_SERVER, How.KILL, 0.1),
)
LEAST_SAMPLES: Final = 20
"""Fewest samples whose quarters can be compared."""
_SPARE_S: Final = 600.0
"""Longest time of a command after its last arrival, seconds, for its last jobs."""
BOUNDS: Final[Mapping[str, float]] = {
    "processes": 8,
    "rss_bytes": 64 * 2**20,
    "threads": 8,
    "files": 16,
    "sockets": 8,
    "shared_memory_bytes": 16 * 2**20,
    "temporary_files": 8,
}
"""Largest growth of the median from the second quarter of a soak to the last. It allows for a few
jobs more or less at one moment, and for the records of an hour in memory."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Resources of a command and its processes at one moment."""

    at_s: float
    processes: int
    """The command's own process and all its descendants."""
    rss_bytes: int
    """Memory of the command's own process; threads, files and sockets are also its own."""
    threads: int
    files: int
    sockets: int
    shared_memory_bytes: int
    """Shared memory in use on the whole machine."""
    temporary_files: int
    """Number of entries in the folder for temporary files."""


class Watch:
    """Recorder of samples of one command."""

    def __init__(self) -> None:
        """Start the clock."""
        self.samples: list[Sample] = []
        self._began = time.monotonic()
        self._next = self._began

    def __call__(self, driver: psutil.Process) -> None:
        """Take a sample if the last one is old enough."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _SAMPLE_EVERY_S
        with contextlib.suppress(psutil.Error, OSError):
            self.samples.append(
                Sample(
                    at_s=round(now - self._began, 1),
                    processes=1 + len(below(driver)),
                    rss_bytes=driver.memory_info().rss,
                    threads=driver.num_threads(),
                    files=driver.num_fds(),
                    sockets=len(driver.net_connections()),
                    shared_memory_bytes=psutil.disk_usage("/dev/shm").used,
                    temporary_files=len(list(Path(tempfile.gettempdir()).iterdir())),
                )
            )


def growth(samples: Sequence[Sample]) -> dict[str, float]:
    """Return by how much the median of each number grew from the second quarter to the last."""
    quarter = len(samples) // 4
    before, after = samples[quarter : 2 * quarter], samples[-quarter:]
    return {
        name: median(getattr(sample, name) for sample in after)
        - median(getattr(sample, name) for sample in before)
        for name in BOUNDS
    }


def soak(backend: str, seed: int, minutes: float, folder: Path) -> dict[str, Any]:
    """Run one command under strikes for a given time, and return its record.

    Args:
        backend: one of ``BACKENDS``.
        seed: seed of the jobs and of the strikes.
        minutes: length of the period in which jobs arrive.
        folder: empty folder for the results.
    """
    rng = np.random.default_rng([seed, _STREAM, sorted(BACKENDS).index(backend)])
    lasting_s = 60.0 * minutes
    num_jobs = max(4, int(lasting_s / _ARRIVALS_EVERY_S))
    arrivals_s = np.sort(rng.uniform(0.0, lasting_s, num_jobs)).round(2)
    rows = ["arrival,slots,max_slots,work"]
    for arrival_s in arrivals_s:
        slots = int(rng.integers(1, 3))
        most = int(rng.integers(slots, 5))
        rows.append(f"{arrival_s},{slots},{most},{24 * int(rng.integers(100, 800))}")
    (folder / "struck.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "struck.yaml").write_text(TRACE, encoding="utf-8")
    strikes = _strikes(rng, lasting_s)
    words = [f"trace={folder / 'struck.yaml'}", f"results_dir={folder / 'runs'}", *WORDS]
    watch = Watch()
    running = Running(
        [*words, *BACKENDS[backend], *([_CHECKPOINTS] if backend != "static" else [])],
        folder,
        folder / "command.txt",
        lasting_s + _SPARE_S,
        watch,
    )
    outcome = running.finish(strikes)
    if len(watch.samples) < LEAST_SAMPLES:
        raise UserError(
            [
                Problem(
                    "--minutes",
                    f"{backend} gave {len(watch.samples)} samples: {outcome.said}",
                    "soak for longer: 1 minute a backend",
                )
            ]
        )
    grown, every = growth(watch.samples), max(1, len(watch.samples) // 50)
    problems = [
        f"{name} grew by {grown[name]:g}, more than {bound:g}"
        for name, bound in BOUNDS.items()
        if grown[name] > bound
    ]
    if outcome.exit_code != 0:
        problems.append(f"the command ended with {outcome.exit_code}: {outcome.said}")
    if outcome.left:
        problems.append(f"processes left: {outcome.left}")
    return {
        "backend": backend,
        "minutes": minutes,
        "jobs": num_jobs,
        "strikes": len(outcome.struck),
        "wall_s": round(outcome.wall_s, 1),
        "growth": grown,
        "problems": problems,
        "samples": [asdict(sample) for sample in watch.samples[::every]],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Soak every backend that has no record yet; return the exit code."""
    options = _parser().parse_args(argv)
    with only_writer(options.out):
        return _soak_each(options)


def _soak_each(options: argparse.Namespace) -> int:
    names = options.backends or sorted(BACKENDS)
    found: dict[str, Any] = {}
    for name in names:
        path = options.out / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text(encoding="utf-8"))

    def run(name: str) -> str:
        with tempfile.TemporaryDirectory(prefix="elastrace-soak-") as folder:
            record = soak(name, options.seed, options.minutes / len(names), Path(folder))
        found[name] = record
        machine = environment(["python", "-m", "harness.strikes.soak"])
        write_json(options.out / f"{name}.json", {**record, "machine": machine})
        return "; ".join(record["problems"]) or "right"

    missing = [name for name in names if name not in found]
    guess_s = 60.0 * options.minutes / len(names) + _ARRIVALS_EVERY_S
    one_by_one(missing, len(found), str, run, guess_s)
    wrong = sorted(name for name, record in found.items() if record["problems"])
    strikes = sum(record["strikes"] for record in found.values())
    jobs = sum(record["jobs"] for record in found.values())
    print(f"{jobs} jobs, {strikes} strikes; wrong: {', '.join(wrong) or 'none'}; {options.out}")
    return 1 if wrong else 0


def _strikes(rng: np.random.Generator, lasting_s: float) -> list[Strike]:
    shares = [share for _, _, share in _STRUCK]
    strikes = []
    for _ in range(int(lasting_s / _STRIKES_EVERY_S)):
        victim, how, _ = _STRUCK[int(rng.choice(len(_STRUCK), p=shares))]
        after_s = float(rng.uniform(0.0, 2 * _STRIKES_EVERY_S))
        strikes.append(Strike(victim, how, after_s, 0.0, float(rng.random())))
    return strikes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.strikes.soak",
        description=(
            "Train random jobs under every backend, with rescales and strikes from outside, and "
            "watch processes, memory, threads, files, sockets, shared memory and temporary files."
        ),
        epilog=(
            "A backend whose record exists is not soaked again. Exit codes: 0 nothing grew beyond "
            "its bound; 1 something did, or a run failed; 130 or 143 stopped."
        ),
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=60.0,
        metavar="M",
        help="minutes of all backends together: 60",
    )
    parser.add_argument("--backends", nargs="+", choices=sorted(BACKENDS), metavar="NAME")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of jobs and strikes: 0"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results/soak"), metavar="DIR",
        help="folder of the records, one a backend: results/soak",
    )  # fmt: skip
    return parser


def _guarded() -> int:
    with interruptible():
        return exit_code(main)


if __name__ == "__main__":
    run_command(_guarded)

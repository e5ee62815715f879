"""``python -m systems.schedulers.hu``: measure the time and the quality of decisions, by method."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from harness.machine.interrupts import ends_at_once, run_command
from harness.machine.manifest import environment
from systems.schedulers.hu.instance import Instance, Job
from systems.schedulers.hu.solve import METHODS

_COUNTS = (1, 2, 4, 8, 16)
_MEANS_MIN = (30.0, 60.0, 120.0, 232.6)
"""Mean training times of the jobs, minutes, used by the trials in turn; the last is the paper's."""
_SIGMA = 1.5


def drawn(seed: int, num_jobs: int, num_nodes: int, num_steps: int) -> Instance:
    """Draw jobs like those of the paper's log (``ModelArts``), each with a uniformly drawn
    remaining time.

    Args:
        seed: seed of the draw, which also chooses the mean training time.
        num_jobs: jobs, of 1 to 16 nodes at the paper's speeds.
        num_nodes: number of nodes of the pool.
        num_steps: number of steps of 5 minutes.
    """
    rng = np.random.default_rng(seed)
    mean_min = _MEANS_MIN[seed % len(_MEANS_MIN)]
    minutes = rng.lognormal(math.log(mean_min) - _SIGMA**2 / 2, _SIGMA, num_jobs)
    left_min = np.maximum(1.0, minutes * rng.uniform(0.0, 1.0, num_jobs)).tolist()
    speeds = [count * 0.8 ** math.log2(count) for count in _COUNTS]
    jobs = tuple(Job(_COUNTS, tuple(5.0 * speed / left for speed in speeds)) for left in left_min)
    return Instance(jobs, num_nodes, num_steps)


@dataclass(frozen=True)
class Row:
    """One instance solved by one method."""

    trial: int
    method: str
    wall_ms: float
    cpu_ms: float
    below_best_bound: float
    """Share by which the plan's value is below the best bound that any method has proven."""


def measure(args: argparse.Namespace) -> list[Row]:
    """Solve every drawn instance by every method, in an order that is drawn for each instance."""
    rng = np.random.default_rng(args.seed)
    rows = []
    for trial in range(-1, args.trials):  # the first instance only fills caches
        instance = drawn(args.seed + trial + 1, args.jobs, args.nodes, args.steps)
        plans, times = {}, {}
        for method in rng.permutation(args.methods).tolist():
            wall, cpu = time.perf_counter(), time.process_time()
            plans[method] = METHODS[method](instance, args.gap)
            times[method] = time.perf_counter() - wall, time.process_time() - cpu
        bound = min(plan.bound for plan in plans.values())
        if trial >= 0:
            rows += [
                Row(trial, method, 1e3 * wall, 1e3 * cpu, 1.0 - plans[method].value / bound)
                for method, (wall, cpu) in times.items()
            ]
    return rows


def show(args: argparse.Namespace, rows: list[Row]) -> None:
    """Print a line for each method."""
    print(f"{args.trials} instances of {args.jobs} jobs, {args.steps} steps, {args.nodes} nodes")
    print(
        "method    wall ms p50    p95    max   cpu ms p50    p95   below the best bound p50    max"
    )
    for method in args.methods:
        own = [row for row in rows if row.method == method]
        wall = np.percentile([row.wall_ms for row in own], [50, 95, 100])
        busy = np.percentile([row.cpu_ms for row in own], [50, 95])
        short = [row.below_best_bound for row in own]
        below = f"{np.median(short):.3%} {max(short):.3%}"
        walls = f"{wall[0]:12.1f} {wall[1]:6.1f} {wall[2]:6.1f}"
        print(f"{method:8} {walls} {busy[0]:12.1f} {busy[1]:6.1f} {below:>34}")


def keep(args: argparse.Namespace, rows: list[Row]) -> None:
    """Write the measurements to ``record.json``, together with machine and code."""
    settings = {name: value for name, value in vars(args).items() if name != "out"}
    document = {
        **environment(["python", "-m", "systems.schedulers.hu", *sys.argv[1:]]),
        "settings": settings,
        "rows": [asdict(row) for row in rows],
    }
    args.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1) + "\n"
    (args.out / "record.json").write_text(text, encoding="utf-8")


def main() -> int:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m systems.schedulers.hu", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=190)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gap", type=float, default=1e-3, help="share of the bound")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=list(METHODS),
        default=["fast"],
        metavar="METHOD",
        help=f"methods, from {', '.join(METHODS)}; big_m takes minutes from some dozen jobs on",
    )
    parser.add_argument("--out", type=Path, help="folder to write record.json into")
    args = parser.parse_args()
    if not args.jobs <= args.nodes or min(args.jobs, args.steps, args.trials) < 1:
        parser.error("give at least 1 job, step and trial, and as many nodes as jobs")
    with ends_at_once():  # exceptions cannot pass through a solver
        rows = measure(args)
    show(args, rows)
    if args.out is not None:
        keep(args, rows)
    return 0


if __name__ == "__main__":
    run_command(main)

"""``python -m harness.bench.torchft``: compare a scale-out and a worker's death with torchft."""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from harness.bench.torchft.record import (
    NAME,
    TrialFiles,
    cells_of_record,
    make_record,
    record_path,
)
from harness.bench.torchft.trials import (
    Cell,
    Settings,
    Trial,
    defaults,
    order_of,
    plan_cells,
    run_trial,
)
from harness.bench.trial_loop import exit_code, one_by_one, only_writer
from harness.errors import Problem, UserError
from harness.files.atomic_json import write_json
from harness.machine.interrupts import interruptible, run_command
from harness.machine.manifest import environment, machine_load
from harness.machine.terminal import console
from harness.results.store import StoreError

_GUESS_S = 70.0
"""Assumed seconds of a trial until one has been measured."""
_SHOWN = ("step_s", "noise_s", "scaling_time_s", "stopping_time_s", "recovery_s")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.bench.torchft",
        description=(
            "A worker trains, others join it, and then one of them is killed: under torchft, and"
            " under the stop-free backend on the same cores. When are all at work, how long does"
            " the first stop, when do the survivors go on? Needs torchft:"
            " pip install 'elastrace[torchft]'."
        ),
        epilog=(
            "Keep the machine quiet meanwhile. Every finished trial is kept: the same command"
            " goes on after a stop. A failed trial is told and counted; --force measures again."
            " Exit codes: 0 measured; 1 a trial failed; 2 a wrong argument, or no torchft; 130 or"
            " 143 stopped."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--workloads", type=_names, metavar="POOL/NAME,...", help="one by one")
    parser.add_argument("--workers", type=int, metavar="N", help="after the scale-out, from one")
    parser.add_argument("--batch", type=int, metavar="N", help="samples of a worker and step")
    parser.add_argument("--cluster", metavar="NAME", help="option of that group")
    parser.add_argument(
        "--start", choices=("cold", "preimported"),
        help="how newcomers of the stop-free backend start (torchft's are new interpreters)",
    )  # fmt: skip
    parser.add_argument(
        "--wrapper", choices=("flat", "ddp"),
        help="how torchft's replicas sum gradients: all in one sum after the backward pass, or by"
        " its DistributedDataParallel",
    )  # fmt: skip
    parser.add_argument(
        "--heartbeat-s", type=float, metavar="S",
        help="silence after which torchft takes a replica for dead (its own default is 5)",
    )  # fmt: skip
    parser.add_argument("--trials", type=int, metavar="N", help="of each workload")
    parser.add_argument("--seed", type=int, metavar="N", help="of the order")
    parser.add_argument("--module", metavar="MODULE", help="the program that runs torchft")
    parser.add_argument(
        "--work", type=Path, default=Path("results/sweeps") / NAME, metavar="DIR",
        help="finished trials, runs and logs",
    )  # fmt: skip
    parser.add_argument(
        "--to", type=Path, default=Path("results/reference"), metavar="DIR",
        help=f"the record goes to DIR/HARDWARE/{NAME}/",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="measure finished trials again")
    parser.set_defaults(**defaults())
    return parser


def _names(text: str) -> list[str]:
    return text.split(",")


def _settings(options: argparse.Namespace) -> Settings:
    problems: list[Problem | str] = []
    workloads = tuple(options.workloads)
    if len({*workloads}) < len(workloads):
        problems.append(Problem("--workloads", "names one twice", "name each once"))
    if options.workers < 2:
        problems.append(Problem("--workers", f"is {options.workers}", "give 2 or more"))
    for word, value in (
        ("--batch", options.batch),
        ("--trials", options.trials),
        ("--heartbeat-s", options.heartbeat_s),
    ):
        if not 0 < value < math.inf:
            problems.append(Problem(word, f"is {value}", "give a number above 0"))
    try:
        version = importlib.metadata.version("torchft")
    except importlib.metadata.PackageNotFoundError:
        hint = "pip install 'elastrace[torchft]'"
        problems.append(Problem("torchft", "is not installed", hint))
    if problems:
        raise UserError(problems)
    return Settings(
        module=options.module,
        workloads=workloads,
        workers=options.workers,
        batch=options.batch,
        cluster=options.cluster,
        start=options.start,
        wrapper=options.wrapper,
        heartbeat_s=options.heartbeat_s,
        trials=options.trials,
        seed=options.seed,
        torchft=version,
    )


def measure(
    files: TrialFiles,
    cells: Sequence[Cell],
    found: dict[Trial, Mapping[str, Any]],
    *,
    force: bool,
) -> None:
    """Run the missing trials; add each trial to ``found`` as soon as it is finished.

    Raises:
        StoreError: a finished trial's file is damaged.
    """
    settings = files.settings
    trials = order_of(cells, settings.trials, settings.seed)
    if not force:
        found |= {trial: said for trial in trials if (said := files.find(trial)) is not None}
    missing = [trial for trial in trials if trial not in found]

    def run(trial: Trial) -> str:
        load = machine_load()
        files.add(trial, run_trial(trial, settings, files.folder.parent), load)
        said = files.find(trial)
        assert said is not None
        found[trial] = said
        return ", ".join(f"{system} failed" for system in _failed(said)) or "done"

    with only_writer(files.folder):
        one_by_one(missing, len(trials) - len(missing), lambda trial: trial.name, run, _GUESS_S)


def _failed(said: Mapping[str, Any]) -> list[str]:
    """Return the systems that did not complete a trial."""
    return [key for key, own in said.items() if isinstance(own, Mapping) and "error" in own]


def show(record: Mapping[str, Any]) -> None:
    """Print the table of a record."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    units = [name.removesuffix("_s").replace("_", " ") + " ms" for name in _SHOWN]
    for heading in ("workload", "system", "trials", "failed", *units):
        is_text = heading in ("workload", "system")
        table.add_column(heading, justify="left" if is_text else "right")
    for cell in record["cells"]:
        for system, own in cell["medians"].items():
            texts = [f"{1000 * own[name]:,.1f}" if name in own else "" for name in _SHOWN]
            counts = (str(own["trials"]), str(own["failed"]))
            table.add_row(cell["workload"], system, *counts, *texts)
    console().print(table)


def _main(options: argparse.Namespace, command: list[str]) -> int:
    settings = _settings(options)
    cells = plan_cells(settings, options.work)
    about = environment(command)
    files = TrialFiles(options.work / "trials", settings, about)
    path = record_path(options.to, files)
    earlier = [] if options.force else cells_of_record(path, files)
    found: dict[Trial, Mapping[str, Any]] = {}
    try:
        with interruptible():
            measure(files, cells, found, force=options.force)
    finally:
        # Also after a stop: report what has been measured so far.
        if found:
            record = make_record(files, cells, found, earlier)
            write_json(path, record)
            show(record)
            print(f"Record: {path}")
    errors = [f"{t.name}: {key}: {s[key]['error']}" for t, s in found.items() for key in _failed(s)]
    print(*errors, sep="\n", end="\n" if errors else "", file=sys.stderr)
    return 1 if errors else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, write the record, and print the table; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    options = build_parser().parse_args(words)
    command = ["python", "-m", "harness.bench.torchft", *words]
    return exit_code(lambda: _main(options, command), StoreError, OSError)


if __name__ == "__main__":
    run_command(main)

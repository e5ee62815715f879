"""``python -m harness.bench.overhead``: measure the harness's cost in every training step."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from harness.bench.overhead import numbers
from harness.bench.overhead.record import (
    NAME,
    TrialStore,
    cells_of_record,
    is_decided,
    make_record,
    name_of,
    record_path,
    trials_of,
)
from harness.bench.overhead.settings import DEFAULTS, Settings, read_settings
from harness.bench.overhead.trials import OverheadTrial, TrialError, order_of, plan_cells, run_trial
from harness.bench.trial_loop import exit_code, one_by_one, only_writer
from harness.errors import Problem, UserError
from harness.files.atomic_json import write_json
from harness.machine.interrupts import interruptible, run_command
from harness.machine.manifest import environment, machine_load
from harness.machine.terminal import console, seconds
from harness.results.store import StoreError

_GUESS_S = 100.0
"""Assumed seconds of a trial until one has been measured."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.bench.overhead",
        description=(
            "How much slower is a training step under a backend than in a plain script with"
            " stock DistributedDataParallel and the same heap? In a trial three programs take turns"
            " on the same cores: the plain script, the backend through the live engine, the plain"
            f" script again (for the noise). Defaults: {DEFAULTS.name} among the configurations."
        ),
        epilog=(
            "Run nothing else on the machine meanwhile. Finished trials are kept, and a stop also "
            "writes the record; the same command continues. Exit codes: 0 measured; 1 a trial "
            "failed; 2 a wrong argument; 130 or 143 stopped."
        ),
    )
    parser.add_argument("--workloads", metavar="POOL/NAME,...", help="such as toy/toy,tiny/bert")
    parser.add_argument("--workers", metavar="N,...", help="numbers of workers")
    parser.add_argument("--steps", type=int, metavar="N", help="steps of a trial, of all workloads")
    parser.add_argument("--drop", type=int, metavar="N", help="first steps to leave out")
    parser.add_argument(
        "--turn", type=float, metavar="S",
        help="seconds of a turn, of all workloads; 7 steps at least",
    )  # fmt: skip
    parser.add_argument("--trials", type=int, metavar="N", help="trials of each workload")
    parser.add_argument(
        "--until", type=int, metavar="N",
        help="double the trials of undecided cells, up to N (two one-sided tests)",
    )  # fmt: skip
    parser.add_argument(
        "--margin", type=float, metavar="SHARE", help="equivalence margin of those tests: 0.01"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="global batch")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed of the order of trials and of training"
    )
    parser.add_argument("--backend", metavar="NAME", help="option of the group backend")
    parser.add_argument(
        "--logical", type=int, metavar="N",
        help="logical workers, for --backend virtual_thread: N share the workers, compared with "
             "a plain script that accumulates gradients",
    )  # fmt: skip
    parser.add_argument("--cluster", metavar="NAME", help="option of the group cluster")
    parser.add_argument("--reference", metavar="MODULE", help="module of the stand-alone script")
    parser.add_argument(
        "--work", type=Path, default=Path("results/sweeps") / NAME, metavar="DIR",
        help="finished trials, runs and logs (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--to", type=Path, default=Path("results/reference"), metavar="DIR",
        help=f"the record goes to DIR/HARDWARE/{NAME}/ (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--continue", dest="goes_on", action="store_true",
        help="add to the existing record, for a study in several parts; its trials count if "
             "machine, libraries and settings are the same, and its other cells are kept",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="measure finished trials again")
    parser.add_argument("--dry", action="store_true", help="print the plan; start nothing")
    return parser


def _settings(options: argparse.Namespace) -> Settings:
    workers: list[int] | None = None
    if options.workers is not None:
        try:
            workers = [int(number) for number in options.workers.split(",")]
        except ValueError:
            hint = "give whole numbers with commas, for example 1,2"
            problem = Problem("--workers", f"is {options.workers!r}", hint)
            raise UserError([problem]) from None
    return read_settings(
        reference=options.reference,
        backend=options.backend,
        cluster=options.cluster,
        logical=options.logical,
        workloads=None if options.workloads is None else options.workloads.split(","),
        workers=workers,
        batch=options.batch,
        trials=options.trials,
        steps=options.steps,
        steps_of=None if options.steps is None else {},
        drop=options.drop,
        turn_s=options.turn,
        turn_s_of=None if options.turn is None else {},
        seed=options.seed,
        max_trials=options.until,
        margin=options.margin,
    )


def measure(
    store: TrialStore,
    trials: Sequence[OverheadTrial],
    folder: Path,
    found: dict[OverheadTrial, Mapping[str, Any]],
    *,
    force: bool,
) -> None:
    """Run the missing trials; add each trial to ``found`` as soon as it is finished.

    Raises:
        TrialError: a trial failed; those before it are kept.
    """
    if not force:
        found |= {trial: entry for trial in trials if (entry := store.find(trial)) is not None}
    missing = [trial for trial in trials if trial not in found]

    def run(trial: OverheadTrial) -> str:
        load = machine_load()
        store.add(trial, run_trial(trial, store.settings, folder), load)
        entry = store.find(trial)
        assert entry is not None
        found[trial] = entry
        return "done"

    with only_writer(store.folder):
        one_by_one(missing, len(trials) - len(missing), lambda trial: trial.name, run, _GUESS_S)


def show(record: Mapping[str, Any]) -> None:
    """Print the table of a record."""
    out = console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    share = f"{100 * record['settings']['margin']:g}%"
    headings = ["plain ms", "ratio", "95%", "noise", "95%", "extra us", "ratio of means", "< 1%"]
    headings += [f"within {share}", "p"]
    for heading in ("workload", "workers", "trials", *headings):
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for cell in record["cells"]:
        middle, mean = cell["median"], cell["mean"]
        table.add_row(
            cell["workload"],
            str(cell["num_workers"]),
            str(len(cell["trials"])),
            f"{1000 * middle['plain_s']:.3f}",
            f"{middle['ratio']['value']:.4f}",
            _interval(middle["ratio"]),
            f"{middle['noise']['value']:.4f}",
            _interval(middle["noise"]),
            f"{middle['extra_us']:.0f}",
            f"{mean['ratio']['value']:.4f}",
            numbers.Ratio(**middle["ratio"]).verdict(),
            *_judged(middle["equivalence"]["ratio"]),
        )
    out.print(table)
    load = record["load_1min"]
    known = "not known" if load["min"] is None else f"{load['min']:.2f} to {load['max']:.2f}"
    out.print(
        f"ratio: {record['settings']['backend']} over plain, medians of steps; noise: plain over"
        f" plain. Load average before trials: {known}."
    )


def _judged(test: Mapping[str, Any] | None) -> tuple[str, str]:
    return ("too few", "") if test is None else (test["verdict"], f"{test['p_value']:.2g}")


def _interval(ratio: Mapping[str, float | None]) -> str:
    low, high = ratio["low"], ratio["high"]
    return "" if low is None or high is None else f"{low:.4f} to {high:.4f}"


def _undecided(
    record: Mapping[str, Any], trials: Sequence[OverheadTrial], found: Mapping[OverheadTrial, Any]
) -> list[OverheadTrial]:
    """Return the trials that are still to be measured, of the undecided cells."""
    decided = {
        (cell["workload"], cell["num_workers"]) for cell in record["cells"] if is_decided(cell)
    }
    return [
        trial
        for trial in trials
        if trial not in found and (trial.cell.workload, trial.cell.num_workers) not in decided
    ]


def _main(options: argparse.Namespace, command: list[str]) -> int:
    settings = _settings(options)
    cells = plan_cells(settings, options.work)
    trials = order_of(cells, settings.trials, settings.seed)
    about = environment(command)
    path = record_path(options.to, about, settings)
    earlier = cells_of_record(path) if options.goes_on else []
    store = TrialStore(options.work / "trials", about, settings, trials_of(earlier))
    kept = [cell for cell in earlier if store.counts(cell)]
    asked = {(cell.workload, cell.num_workers) for cell in cells}
    for workload, num_workers in sorted({*map(name_of, earlier)} - {*map(name_of, kept)} - asked):
        fact = "was measured on another machine, with other libraries or other settings"
        print(f"{workload} on {num_workers}: {fact}; it leaves {path}", file=sys.stderr)
    if options.dry:
        left = sum(options.force or store.find(trial) is None for trial in trials)
        for trial in trials:
            print(f"{trial.name}: {trial.cell.steps} steps on cores {list(trial.cell.cores)}")
        time_text = seconds(_GUESS_S * left)
        print(f"{len(trials)} trials, {left} to run, about {time_text}, then {path}")
        print("--dry: nothing was started.")
        return 0
    found: dict[OverheadTrial, Mapping[str, Any]] = {}
    try:
        with interruptible():
            measure(store, trials, options.work, found, force=options.force)
            for look in settings.looks[1:]:
                record = make_record(settings, found, about, kept)
                more = _undecided(record, order_of(cells, look, settings.seed), found)
                if not more:
                    break
                measure(store, more, options.work, found, force=options.force)
    finally:
        # Also after a stop: the record keeps the trials measured so far, for --continue.
        if found:
            record = make_record(settings, found, about, kept)
            write_json(path, record)
    show(record)
    print(f"Record: {path}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the missing trials, write the record, and print the table; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    options = build_parser().parse_args(words)
    command = ["python", "-m", "harness.bench.overhead", *words]
    return exit_code(lambda: _main(options, command), TrialError, StoreError)


if __name__ == "__main__":
    run_command(main)

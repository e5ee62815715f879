"""Command ``python -m harness.tuning study=NAME``: chooses options from the records of a study.

A candidate is a scheduler with options: the axes of the study that are ``scheduler``, ``backend``,
``engine`` or options of these. The values of every other axis (trace, seed) are inputs. The rule
chooses, for each scheduler, the candidate with the best mean of the metric over the inputs; of
equal means, the first in the study.

All schedulers must have the same number of candidates. Fewer are enough if all options of a
scheduler are switches and every setting is tried. Every candidate must have a finished run of every
input. ``--into STUDY`` writes the choice into the study that runs it on other inputs.

Exit code 0: chosen; 2: a wrong argument, or the study does not allow a choice.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from rich import box
from rich.table import Table

from harness.comparison.settings import options_text
from harness.configuration.compose import CONFIG_DIR
from harness.configuration.named_classes import TARGET
from harness.configuration.study import load_study
from harness.errors import Problem, UserError, known, render
from harness.machine.interrupts import run_command
from harness.machine.terminal import console
from harness.results.store import RESULT_DIRS, StoredRun, StoreError, iter_runs
from harness.run.plan import Library, plan
from harness.sweep.runner import read_words
from harness.sweep.tuned_study import is_of_system, write_into

METRICS: Mapping[str, float] = {
    "deadline_satisfactory_ratio": 1.0,
    "jct_mean_s": -1.0,
    "jct_penalised_mean_s": -1.0,
}
"""Metrics by which a choice is made, with sign 1 if larger is better, otherwise -1."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One scheduler with options, and its results on every input."""

    scheduler: str
    options: tuple[str, ...]
    values: Mapping[str, float]
    """Value of the metric by input."""

    @property
    def mean(self) -> float:
        """Mean of the metric over the inputs."""
        return fmean(self.values.values())


def candidates(label: str, results: Sequence[Path], metric: str) -> list[Candidate]:
    """Return the candidates of a study, in its order, from its finished runs.

    Raises:
        UserError: the study is unknown or has no axis ``scheduler``, points have not been run, the
            metric is missing, or it is a mean over the jobs that finished and some did not.
        StoreError: a run cannot be read by this version.
    """
    study, library = load_study(label), Library()
    found: dict[str, StoredRun] = {}
    for directory in results:
        for stored in iter_runs(directory):
            found.setdefault(stored.run_id, stored)
    known_trials = {_trial(stored.config) for stored in found.values()}
    problems: list[Problem | str] = []
    values: dict[tuple[str, ...], dict[str, float]] = {}
    for point in study.points():
        place = " ".join(point.overrides)
        if "scheduler" not in point.axes:
            raise UserError([Problem(f"study {label}", "varies no scheduler", "choose another")])
        config = read_words([*study.base, *point.overrides])
        run = found.get(plan(config, library, check_workloads=False).run_id)
        problem = _problem(run, metric, label)
        if run is None and _trial(dataclasses.asdict(config)) in known_trials:
            fact = "has only runs on other contents of its trace or profile, which do not count"
            problem = fact, f"run it: python -m harness study={label}"
        if problem is not None:
            problems.append(Problem(place, *problem))
            continue
        assert run is not None, "that would be a problem"
        own = [
            f"{axis}={text}"
            for axis, text in point.axes.items()
            if is_of_system(axis) and axis != "scheduler"
        ]
        others = [text for axis, text in point.axes.items() if not is_of_system(axis)]
        candidate = (point.axes["scheduler"], *own)
        values.setdefault(candidate, {})[" ".join(others)] = run.metrics[metric]
    if problems:
        raise UserError(problems)
    return [Candidate(key[0], key[1:], own) for key, own in values.items()]


def _trial(config: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """Return the values that identify a run, without the contents of its files."""
    return options_text(config), config.get("seed"), config.get("repetition")


def _problem(run: StoredRun | None, metric: str, label: str) -> tuple[str, str] | None:
    """Return why a run cannot be used, and the way out; None if it can."""
    if run is None:
        return "has no finished run", f"run it: python -m harness study={label}"
    if metric not in run.metrics:
        return f"has no {metric}", "choose another metric"
    others = run.metrics["jobs_submitted"] - run.metrics["jobs_finished"]
    if metric == "jct_mean_s" and others:
        fact = f"{others:.0f} jobs did not finish, so its mean is over fewer jobs than other means"
        return fact, "choose metric=jct_penalised_mean_s, or make deadlines soft"
    return None


def num_settings(scheduler: str) -> int | None:
    """Return the number of settings of a shipped scheduler; None unless all its options are
    switches."""
    path = CONFIG_DIR / "scheduler" / f"{scheduler}.yaml"
    if not path.is_file():
        return None
    part = yaml.safe_load(path.read_text(encoding="utf-8"))
    options = [value for key, value in part.items() if key != TARGET]
    return 2 ** len(options) if all(isinstance(value, bool) for value in options) else None


def choose(found: Sequence[Candidate], metric: str) -> dict[str, Candidate]:
    """Return the best candidate of every scheduler.

    Raises:
        UserError: budgets or inputs are not the same.
    """
    budgets: dict[str, list[Candidate]] = {}
    for candidate in found:
        budgets.setdefault(candidate.scheduler, []).append(candidate)
    budget = max(map(len, budgets.values()))
    if any(len(own) not in (budget, num_settings(name)) for name, own in budgets.items()):
        listed = ", ".join(f"{name} {len(own)}" for name, own in budgets.items())
        fact = f"schedulers have different numbers of points: {listed}"
        raise UserError(
            [
                Problem(
                    "budget",
                    fact,
                    "give every scheduler the same number, or all settings of its switches",
                )
            ]
        )
    if len({frozenset(candidate.values) for candidate in found}) > 1:
        fact = "candidates were not run on the same inputs"
        raise UserError([Problem("inputs", fact, "give all grids the same traces and seeds")])
    sign = METRICS[metric]
    return {name: max(own, key=lambda one: sign * one.mean) for name, own in budgets.items()}


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.tuning",
        description=(
            "Choose options for every scheduler from a tuning study: those with the best mean of "
            "a metric over the inputs; of equal means, the first in the study."
        ),
        epilog="Exit codes: 0 chosen; 2 a wrong argument, or no choice can be made.",
    )
    parser.add_argument("study", help="study=NAME")
    parser.add_argument(
        "metric", nargs="?", default="metric=deadline_satisfactory_ratio",
        help=f"metric=NAME; {known(METRICS)} (default: deadline_satisfactory_ratio)",
    )  # fmt: skip
    parser.add_argument(
        "--results", type=Path, action="append", metavar="DIR",
        help="folder of the runs; may be repeated (default: results/runs and results/reference)",
    )  # fmt: skip
    parser.add_argument(
        "--into", metavar="STUDY",
        help="also write the choice into this study, as one grid for every scheduler",
    )  # fmt: skip
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Choose and print; return the exit code."""
    options = build_parser().parse_intermixed_args(argv)
    try:
        words = {}
        for word, key in ((options.study, "study"), (options.metric, "metric")):
            name, _, words[key] = word.partition("=")
            if name != key or not words[key]:
                raise UserError([Problem(word, "is no argument", f"write {key}=NAME")])
        metric = words["metric"]
        if metric not in METRICS:
            raise UserError(
                [Problem(f"metric={metric}", "cannot be used for a choice", known(METRICS))]
            )
        found = candidates(words["study"], options.results or RESULT_DIRS, metric)
        chosen = choose(found, metric)
        written = options.into and write_into(
            options.into, {name: one.options for name, one in chosen.items()}
        )
    except UserError as error:
        print(render(error.problems), file=sys.stderr)
        return 2
    except StoreError as error:
        print(error, file=sys.stderr)
        return 2
    _show(found, chosen, metric)
    if written:
        print(f"Written into {written}; run it: python -m harness study={options.into}")
    return 0


def _show(found: Sequence[Candidate], chosen: Mapping[str, Candidate], metric: str) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    inputs = list(found[0].values)
    for heading in ("scheduler", "options", *inputs, "mean", ""):
        table.add_column(heading, overflow="fold", justify="right" if heading in inputs else "left")
    for candidate in found:
        table.add_row(
            candidate.scheduler,
            " ".join(word.removeprefix("scheduler.") for word in candidate.options),
            *(f"{candidate.values[name]:,.5g}" for name in inputs),
            f"{candidate.mean:,.5g}",
            "chosen" if chosen[candidate.scheduler] is candidate else "",
        )
    out = console()
    out.print(table)
    better = "greatest" if METRICS[metric] > 0 else "least"
    out.print(f"Chosen by the {better} mean {metric}; of equal means, the first in the study:")
    for candidate in chosen.values():
        words = " ".join([f"scheduler={candidate.scheduler}", *candidate.options])
        print(f"  {words}")


if __name__ == "__main__":
    run_command(main)

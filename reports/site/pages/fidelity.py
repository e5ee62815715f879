"""Page on the error of simulation, and on the similarity of the records to papers' experiments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from harness.compare import welch_half_width
from harness.metrics.statistics import CONFIDENCE, MIN_TRIALS, Estimate, estimate
from harness.results import verification_levels as levels
from reports.claims.verdicts import Fidelity
from reports.drawing.figure import Table
from reports.measures.fidelity import (
    JOB_PERCENT,
    METRICS,
    Comparison,
    compare,
    engine_pairs,
    job_errors,
    job_spread,
)
from reports.runs.selection import ReportRun, groups, labels
from reports.site.pages.base import Material, Page, Section, named_anew

TARGETS: Mapping[str, float] = {"jct_mean_s": 0.03, "makespan_s": 0.03}
"""Target of the relative error of simulation, by metric.

docs/measurements/simulated-against-live.md explains it."""
JOB_TARGET = 0.05
"""Target of the error of single jobs' JCT, at the percentile ``JOB_PERCENT`` over jobs."""
_JOBS_AT_OWN_SPEEDS = "resimulated_jct_error_p95"
TARGET_SEEDS = 10
"""Number of live trials of a system that the target requires."""
_PERCENT = "\N{NO-BREAK SPACE}%"  # no line ends between a number and its sign


@dataclass(frozen=True)
class Pair:
    """Runs of one setting in a live and in a simulated engine."""

    study: str
    simulation: str
    engine: str
    runs: Sequence[ReportRun]
    """Runs of both engines, of the systems that ran in both."""


def build(material: Material) -> Page:
    """Return the page with errors and targets, order of systems, conditions, and fidelity of
    verdicts."""
    pairs = list(_pairs(material))
    return Page(
        name="fidelity",
        short="Fidelity",
        title="Fidelity: simulated against live",
        lead="Simulated compared with live runs, against these targets: mean JCT and makespan "
        f"within {100 * TARGETS['jct_mean_s']:g}{_PERCENT}, the {JOB_PERCENT}th percentile of "
        f"single jobs' errors within {100 * JOB_TARGET:g}{_PERCENT}, with {TARGET_SEEDS} live "
        "trials, every step executed and a profile from another trace; and the same order of any "
        "two schedulers that live runs can distinguish.",
        sections=[
            _errors(material, pairs),
            _orders(pairs, material),
            _conditions(material, pairs),
            _alone(material, pairs),
            _verdicts(material),
        ],
    )


def _pairs(material: Material) -> Iterator[Pair]:
    for study, runs in material.studies.items():
        for inside in groups(named_anew(runs), "setting").values():
            for (simulation, engine), both in engine_pairs(inside).items():
                simulated = {run.system for run in both if not run.is_live}
                live = {run.system for run in both if run.is_live}
                chosen = [run for run in both if run.system in simulated & live]
                if chosen:
                    yield Pair(study, simulation, engine, chosen)


def word(error: Estimate, target: float) -> str:
    """Return a word on whether an error meets a target, by its interval.

    Args:
        error: mean relative error over trials, with its interval.
        target: largest error aimed at, in either direction.
    """
    if error.half_width is None:
        return "too few trials"
    low, high = error.mean - error.half_width, error.mean + error.half_width
    if -target <= low and high <= target:
        return "met"
    if high < -target or low > target:
        return "not met"
    return "not distinguishable"


def _errors(material: Material, pairs: Sequence[Pair]) -> Section:
    rows = []
    for pair in pairs:
        names = labels(pair.runs)
        for one in compare(pair.runs):
            target = TARGETS.get(one.metric)
            if target is not None:
                low, high = one.spread
                rows.append(
                    [
                        pair.study,
                        pair.simulation,
                        names[one.system],
                        METRICS[one.metric],
                        _percents(one.error),
                        *_speed_cells(one),
                        f"{100 * low:+.1f} to {100 * high:+.1f}" if len(one.live) > 1 else "",
                        *_verdict_cells(one.error, one.error_at_own_speeds, target),
                    ]
                )
        for (system,), trials in groups(pair.runs, "system").items():
            errors = job_errors(trials)
            if errors:
                title = f"single jobs' JCT, p{JOB_PERCENT}"
                found = estimate(errors)
                own = _job_errors_at_own_speeds(trials)
                spread = job_spread(trials)
                spread_cell = "" if spread is None else f"{100 * spread:.2f}"
                cells = [_percents(found), "" if own is None else _percents(own), "", spread_cell]
                cells += _verdict_cells(found, own, JOB_TARGET)
                rows.append([pair.study, pair.simulation, names[system], title, *cells])
    header = ["study", "simulation", "system", "metric", "error, %", "at its own speeds, %",
              "machine's speed", "live spread, %", "n", "target, %", "verdict",
              "at its own speeds"]  # fmt: skip
    shown = [drawn for drawn in material.drawn if drawn.figure == "simulated_against_live"]
    return Section(
        "fidelity-errors",
        "Errors of the simulator",
        "Simulated over live, minus 1; for single jobs the percentile over jobs, without sign. "
        "If speeds and costs are drawn (simulated_varied), simulated values are means. A target "
        "is met if the whole interval meets it, and not met if no part of the interval does; "
        f"there is a 95% interval from {MIN_TRIALS} trials on. No simulation can improve on an "
        "error inside the differences among live runs (live spread); for single jobs, the live "
        "spread is the same percentile with the mean of the other live trials in place of a "
        "simulation. The machine's speed is the time of the executed steps by the profile over "
        "the time that they took, mean over trials. 'At its own speeds' is the error after each "
        "live trial is simulated again with its workers' own speeds: the part due to what the "
        "simulator leaves out. With a ≈, live times were multiplied by the machine's speed "
        "instead. That is less exact, because it uses one factor for all workloads and keeps the "
        f"decisions. {levels.MEANING}",
        Table(header, rows) if rows else None,
        pictures=[drawn for drawn in shown if drawn.has_picture],
        missing="" if rows else "no system of a study here ran in both engines.",
        links=material.links(),
    )


def _percents(error: Estimate) -> str:
    """Return a mean in percent with its 95% interval, if there is one."""
    half = "" if error.half_width is None else f" ±{100 * error.half_width:.2f}"
    return f"{100 * error.mean:+z.2f}{half}"


def _verdict_cells(error: Estimate, own: Estimate | None, target: float) -> list[str]:
    at_own = "" if own is None else word(own, target)
    return [str(error.num_trials), f"{100 * target:g}", word(error, target), at_own]


def _speed_cells(one: Comparison) -> list[str]:
    """Return the error at the machine's own speed, and this speed over the profile's, as texts."""
    speeds = [speed for speed in one.speeds if speed]
    speed = f"{fmean(speeds):.2f}" if len(speeds) == len(one.errors) else ""
    exact, roughly = one.error_at_own_speeds, one.error_at_equal_speed
    if exact is not None:
        return [_percents(exact), speed]
    return ["" if roughly is None else f"\N{ALMOST EQUAL TO} {_percents(roughly)}", speed]


def _job_errors_at_own_speeds(trials: Sequence[ReportRun]) -> Estimate | None:
    """Return the jobs' error at the trials' own speeds; None unless all were simulated again."""
    found = [
        run.metrics.get(_JOBS_AT_OWN_SPEEDS) for run in trials if run.is_live and run.is_drawable
    ]
    known = [share for share in found if share is not None]
    return estimate(known) if known and len(known) == len(found) else None


def _orders(pairs: Sequence[Pair], material: Material) -> Section:
    rows = []
    for pair in pairs:
        by_system, names = groups(pair.runs, "system"), labels(pair.runs)
        for (first, ours), (second, theirs) in combinations(by_system.items(), 2):
            for metric in TARGETS:
                row = _order(ours, theirs, metric)
                if row:
                    both = f"{names[first[0]]} over {names[second[0]]}"
                    rows.append([pair.study, pair.simulation, both, METRICS[metric], *row])
    header = ["study", "simulation", "systems", "metric", "live", "95% interval",
              "simulated", "order"]  # fmt: skip
    return Section(
        "fidelity-order",
        "Order of systems",
        "Two systems of one setting: the ratio of their live means with Welch's interval (on "
        "logarithms, not corrected for the number of pairs), and the ratio of the simulated "
        "ones. Swapped pairs are distinguishable in live runs, but have the opposite order in "
        "simulation.",
        Table(header, rows) if rows else None,
        missing="" if rows else "no two systems of one setting ran in both engines.",
        links=material.links(),
    )


def _order(ours: Sequence[ReportRun], theirs: Sequence[ReportRun], metric: str) -> list[str]:
    sides = [
        [_logs([run for run in runs if run.is_live is live], metric) for live in (True, False)]
        for runs in (ours, theirs)
    ]
    (live_a, simulated_a), (live_b, simulated_b) = sides
    if not (live_a and live_b and simulated_a and simulated_b):
        return []
    effect, expected = fmean(live_a) - fmean(live_b), fmean(simulated_a) - fmean(simulated_b)
    half = welch_half_width(live_a, live_b, CONFIDENCE)
    if abs(effect) <= half:
        text = "not distinguishable live"
    else:
        text = "same" if effect * expected > 0 else "swapped"
    interval = f"{math.exp(effect - half):.3g} to {math.exp(effect + half):.3g}"
    return [
        f"{math.exp(effect):.3g}",
        interval if math.isfinite(half) else "none, one trial",
        f"{math.exp(expected):.3g}",
        text,
    ]


def _logs(runs: Sequence[ReportRun], metric: str) -> list[float]:
    return [math.log(run.metrics[metric]) for run in runs if run.metrics.get(metric)]


def _conditions(material: Material, pairs: Sequence[Pair]) -> Section:
    rows = []
    for pair in pairs:
        live = [run for run in pair.runs if run.is_live]
        executed = min(run.metrics.get("executed_share", 0.0) for run in live)
        most = min(len(trials) for trials in groups(live, "system").values())
        measured = all(run.profile_measured_here for run in live)
        paced = any(run.is_emulated for run in live)
        rows.append(
            [
                pair.study,
                pair.simulation,
                pair.engine,
                str(len(groups(live, "system"))),
                str(most),
                f"{100 * executed:.3g}",
                "yes, padded to the profile" if paced else "no",
                "yes" if measured else "no",
                _asked_for(most, executed, measured and not paced),
            ]
        )
    header = ["study", "simulation", "engine", "systems", "fewest live trials",
              "steps executed, %", "paced", "profile measured there",
              "meets the target's conditions"]  # fmt: skip
    return Section(
        "fidelity-conditions",
        "Conditions of the comparison",
        "A paced run follows the same profile as the simulation. It tests the replay and the "
        "cost of changes, not the speeds.",
        Table(header, rows) if rows else None,
        missing="" if rows else "no system of a study here ran in both engines.",
        links=material.links(),
    )


def _asked_for(num_trials: int, executed: float, is_measured: bool) -> str:
    lacking = []
    if num_trials < TARGET_SEEDS:
        lacking.append(f"{TARGET_SEEDS} trials")
    if executed < 1:
        lacking.append("every step executed")
    if not is_measured:
        lacking.append("speeds measured, not paced")
    return f"lacks {', '.join(lacking)}" if lacking else "yes"


def _alone(material: Material, pairs: Sequence[Pair]) -> Section:
    known = {pair.study for pair in pairs}
    rows = []
    for study, runs in material.studies.items():
        live = [run for run in runs if run.is_live]
        if study not in known and live:
            kind = "paced" if any(run.is_emulated for run in live) else "not paced"
            rows.append([study, str(len(live)), str(len(groups(live, "system"))), kind])
    return Section(
        "fidelity-alone",
        "Live studies without simulated runs",
        "Their numbers are measured. They do not show whether simulation would give the same "
        "numbers.",
        Table(["study", "live runs", "systems", "pace"], rows) if rows else None,
        missing="" if rows else "every study with live runs also has simulated runs.",
        links=material.links(),
    )


def _verdicts(material: Material) -> Section:
    judged = [each for verdict in material.verdicts for each in verdict.criteria if each.fidelity]
    rows = []
    for fidelity in Fidelity:
        own = [each for each in judged if each.fidelity is fidelity]
        studies = sorted({each.criterion.study for each in own})
        rows.append([fidelity.value, str(len(own)), ", ".join(studies)])
    return Section(
        "fidelity-verdicts",
        "Experiments behind the verdicts",
        "Number of criteria that records decide, by the run that is least similar to the paper's "
        "experiment.",
        Table(["fidelity", "criteria", "studies"], rows) if judged else None,
        missing="" if judged else "no record decides a criterion.",
    )

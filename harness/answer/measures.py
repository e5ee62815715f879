"""Measures that answers are told in: how each is read from a run, shown and said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from harness.answer.factors import Subject, is_live
from harness.answer.units import duration, number, percent
from harness.contracts.change import ChangeKind
from harness.metrics.compute import jct_common_mean_s
from harness.results.store import StoredRun

_MOST_BYTES = 20_000_000
"""Most bytes of tables of jobs that are read to find the jobs that all finished."""
_LOSSES = ("jobs_refused", "jobs_failed")


@dataclass(frozen=True)
class Measure:
    """One number of a run, and the words for it."""

    heading: str
    noun: str
    best: tuple[str, str]
    """Words for one system with the best value, and for several."""
    show: Callable[[float], str]
    values: Mapping[str, float]
    """Value of every run that has one, by run id."""
    least_is_best: bool = True
    is_share: bool = False
    """True if its differences are points of percent."""
    typical: Callable[[Sequence[float]], float] = fmean

    @property
    def varies(self) -> bool:
        """True if any two runs differ in it."""
        return len({*self.values.values()}) > 1


def _metric(
    found: Sequence[Subject],
    name: str,
    heading: str,
    noun: str,
    best: tuple[str, str],
    show: Callable[[float], str],
    *,
    least_is_best: bool = True,
    is_share: bool = False,
) -> Measure:
    values = {s.run.run_id: s.run.metrics[name] for s in found if name in s.run.metrics}
    return Measure(heading, noun, best, show, values, least_is_best, is_share)


def pauses(found: Sequence[Subject]) -> Measure:
    """Return how long training stopped per change of slots in live runs: the median of each run."""
    values: dict[str, float] = {}
    for subject in found:
        stop_s = _stopping_s(subject.run)
        if stop_s:
            values[subject.run.run_id] = median(stop_s)
    best = ("stops training for the shortest time", "stop training for the shortest time")
    return Measure(
        "pause per change", "the pause of a change", best, duration, values, typical=median
    )


def _stopping_s(run: StoredRun) -> list[float]:
    if not is_live(run) or "changes" in run.left_out:
        return []
    kinds = (ChangeKind.RESCALE, ChangeKind.MIGRATE)
    return [
        change.stopping_time_s
        for change in run.rows("changes")
        if change.outcome == "done" and change.kind in kinds and change.stopping_time_s is not None
    ]


def samples_lost(found: Sequence[Subject]) -> Measure:
    """Return the samples lost per rescale in live runs."""
    live = [subject for subject in found if is_live(subject.run)]
    best = ("loses the fewest samples per rescale", "lose the fewest samples per rescale")
    return _metric(
        live, "samples_lost_per_rescale_mean", "samples lost",
        "the number of samples lost per rescale", best, number,
    )  # fmt: skip


def jct(found: Sequence[Subject]) -> Measure:
    """Return the mean JCT: over the jobs that finished in every run on an input, if any were lost.

    If the records of jobs are not there, an unfinished job counts as run alone after all others.
    """
    best = ("has the shortest mean JCT", "have the shortest mean JCTs")
    if not any(subject.run.metrics.get(name) for subject in found for name in _LOSSES):
        return _metric(found, "jct_mean_s", "mean JCT", "the mean JCT", best, duration)
    common = _common_jct_s(found)
    if common:
        return Measure("mean JCT, common jobs", "the mean JCT of the jobs that all finished",
                       best, duration, common)  # fmt: skip
    return _metric(
        found, "jct_penalised_mean_s", "mean JCT, refusals counted",
        "the mean JCT, refusals counted,", best, duration,
    )  # fmt: skip


def _common_jct_s(found: Sequence[Subject]) -> dict[str, float]:
    if any("jobs" in s.run.left_out for s in found):
        return {}
    if sum(s.run.table_bytes("jobs") for s in found) > _MOST_BYTES:
        return {}
    blocks: dict[object, list[Subject]] = {}
    for subject in found:
        blocks.setdefault((subject.inputs, subject.trial), []).append(subject)
    values: dict[str, float] = {}
    for block in blocks.values():
        means = jct_common_mean_s([subject.run.rows("jobs") for subject in block])
        if means is None:
            return {}
        values |= {s.run.run_id: each for s, each in zip(block, means, strict=True)}
    return values


def deadlines(found: Sequence[Subject]) -> Measure:
    """Return the share of deadlines met, over jobs with a deadline."""
    best = ("meets the most deadlines", "meet the most deadlines")
    return _metric(
        found, "deadline_satisfactory_ratio", "deadlines met", "the share of deadlines met", best,
        percent,
        least_is_best=False, is_share=True,
    )  # fmt: skip


def throughput(found: Sequence[Subject]) -> Measure:
    """Return the samples per second of all jobs."""
    best = ("has the highest throughput", "have the highest throughputs")
    return _metric(
        found, "throughput_samples_per_s", "samples per s", "the throughput", best, number,
        least_is_best=False,
    )  # fmt: skip


def accuracy(found: Sequence[Subject]) -> Measure:
    """Return the accuracy at the end of jobs that were trained to their end."""
    best = ("ends with the highest accuracy", "end with the highest accuracies")
    return _metric(
        found, "accuracy_mean", "accuracy", "the accuracy at the end", best, percent,
        least_is_best=False, is_share=True,
    )  # fmt: skip


def hangs(found: Sequence[Subject]) -> Measure:
    """Return how long it took until a worker that hung was detected."""
    best = ("detects a hang in the shortest time", "detect a hang in the shortest time")
    return _metric(
        found, "hang_detection_median_s", "hang detected in", "the time until a hang is detected",
        best, duration,
    )  # fmt: skip


def speed(found: Sequence[Subject]) -> list[Measure]:
    """Return the speed of the simulator, if runs were repeated that otherwise repeat exactly."""
    alike = {(s.trial[0], repr(sorted(s.options.items()))) for s in found}
    if any(is_live(s.run) for s in found) or len(alike) == len(found):
        return []
    wall = ("is replayed in the shortest time", "are replayed in the shortest time")
    decision = ("has the shortest decisions at the 99th percentile",
                "have the shortest decisions at the 99th percentile")  # fmt: skip
    return [
        _metric(found, "replay_wall_s", "replay", "the time of the replay", wall, duration),
        _metric(
            found, "decision_latency_p99_ms", "decision p99, ms",
            "the 99th percentile of a decision in ms", decision, number,
        ),
    ]  # fmt: skip


_OF_ANY = (
    ("jobs_failed", "jobs failed", number),
    ("bitwise_equal", "same bits", percent),
    ("executed_share", "steps executed", percent),
    ("rescales", "rescales", number),
    ("preemptions", "preemptions", number),
)
_OF_MANY_JOBS = (
    ("jobs_refused", "jobs refused", number),
    ("jct_p95_s", "p95 JCT", duration),
    ("queueing_mean_s", "mean wait", duration),
    ("slot_utilization_mean", "slots in use", percent),
    ("makespan_s", "makespan", duration),
)
"""Metrics that are columns only, most telling first: name, heading, format."""


def further(found: Sequence[Subject]) -> list[Measure]:
    """Return measures that are columns only, most telling first."""
    columns = [*(_OF_MANY_JOBS if has_many_jobs(found) else ()), *_OF_ANY]
    return [_metric(found, name, head, head, ("", ""), show) for name, head, show in columns]


def has_many_jobs(found: Sequence[Subject]) -> bool:
    """Return whether any run has more than one job, so that completion times tell of queues."""
    return any(s.run.metrics.get("jobs_submitted", 0.0) > 1 for s in found)


def in_order(found: Sequence[Subject]) -> list[Measure]:
    """Return the measures that the runs have, the one that answers first.

    Runs of one job measure changes or training; then their pauses, or their speed, are the answer.
    """
    if repeated := speed(found):
        return [measure for measure in repeated if measure.values]
    changes = [pauses(found), samples_lost(found)]
    outcomes = [jct(found), deadlines(found)]
    rates = [throughput(found), accuracy(found)]
    if not has_many_jobs(found):
        is_evaluated = any((s.run.config.get("engine") or {}).get("evaluate_epochs") for s in found)
        order = [hangs(found), *changes, *rates]
        order = [*reversed(rates), *changes] if is_evaluated else order
    elif len({s.factors.get("backend") for s in found}) > 1:
        order = [*changes, *outcomes, rates[1]]
    else:
        order = [
            *(reversed(outcomes) if _is_about_deadlines(found) else outcomes),
            *changes,
            rates[1],
        ]
    return [measure for measure in order if measure.values]


def _is_about_deadlines(found: Sequence[Subject]) -> bool:
    """Return whether at least half of the systems refuse jobs, so that deadlines come first."""
    refusing = {s.system for s in found if s.run.metrics.get("jobs_refused")}
    return 2 * len(refusing) >= len({s.system for s in found})

"""Answer of one run, or of runs that differ in their inputs or trials alone."""

from __future__ import annotations

from collections.abc import Sequence

from harness.answer.block import MOST_COLUMNS, MOST_ROWS, Block
from harness.answer.factors import Subject, is_live
from harness.answer.measures import Measure, further, has_many_jobs, in_order, pauses
from harness.answer.units import capital, counted, duration, number, percent
from harness.metrics.statistics import estimate
from harness.results.store import StoredRun

_KEYS = (
    ("jobs_finished", "jobs finished", number),
    ("jobs_refused", "jobs refused", number),
    ("jobs_failed", "jobs failed", number),
    ("jct_mean_s", "mean JCT", duration),
    ("jct_p95_s", "p95 JCT", duration),
    ("queueing_mean_s", "mean wait for the first slots", duration),
    ("makespan_s", "makespan", duration),
    ("deadline_satisfactory_ratio", "deadlines met", percent),
    ("slot_utilization_mean", "slots in use", percent),
    ("rescales", "rescales", number),
    ("preemptions", "preemptions", number),
    ("interruptions", "interruptions", number),
    ("samples_lost_per_rescale_mean", "samples lost per rescale", number),
    ("accuracy_mean", "accuracy at the end", percent),
    ("throughput_samples_per_s", "samples per second", number),
    ("executed_share", "steps executed", percent),
    ("replay_wall_s", "wall clock of the replay", duration),
)
"""Metrics of a single run's table, in order; those that it lacks, or that are rare and 0, are left
out."""
_RARE = frozenset({"jobs_refused", "jobs_failed", "rescales", "preemptions", "interruptions"})


def one(subject: Subject) -> Block:
    """Return the block of one run: its key numbers."""
    run = subject.run
    pause = pauses([subject])
    rows = [
        (words, show(run.metrics[name]))
        for name, words, show in _KEYS
        if name in run.metrics and (run.metrics[name] or name not in _RARE)
    ]
    rows += [("pause per change, median", pause.show(v)) for v in pause.values.values()]
    return Block(tuple(_told(subject, run, pause)), ("number", "value"), tuple(rows))


def _told(subject: Subject, run: StoredRun, pause: Measure) -> list[str]:
    metrics = run.metrics
    done, sent = metrics.get("jobs_finished", 0.0), metrics.get("jobs_submitted", 0.0)
    jobs = (
        f"All {counted(sent, 'job')}"
        if done == sent != 1
        else f"{done:,.0f} of {counted(sent, 'job')}"
    )
    if sent == 1:
        jobs = "The job" if done else "The job has not"
    text = f"{jobs} finished"
    if has_many_jobs([subject]) and "jct_mean_s" in metrics:
        text += f", with a mean JCT of {duration(metrics['jct_mean_s'])}"
        if "queueing_mean_s" in metrics:
            wait = duration(metrics["queueing_mean_s"])
            text += f" and a mean wait of {wait} for the first slots"
    sentences = [f"{text}, on this one input."]
    if "deadline_satisfactory_ratio" in metrics:
        share = percent(metrics["deadline_satisfactory_ratio"])
        sentences.append(f"{share} of the deadlines were met.")
    for value in pause.values.values():
        sentences.append(f"A change of slots stopped training for {duration(value)} at the median.")
    if is_live(run) and "executed_share" in metrics:
        share = percent(metrics["executed_share"])
        sentences.append(f"{share} of the steps were really executed.")
    elif "slot_utilization_mean" in metrics:
        share = percent(metrics["slot_utilization_mean"])
        sentences.append(f"Jobs held {share} of the slots over the makespan.")
    return sentences[:3]


def by_input(found: Sequence[Subject]) -> Block:
    """Return the block of one system on several inputs, or of its trials on one."""
    rows_of: dict[str, list[Subject]] = {}
    for subject in found:
        rows_of.setdefault(subject.input_name or "all runs", []).append(subject)
    measures = [m for m in in_order(found) if m.values]
    measures += [m for m in further(found) if m.varies]
    columns = measures[: MOST_COLUMNS - 2]
    if not columns:
        rows = tuple((name, str(len(own))) for name, own in sorted(rows_of.items()))
        return Block((f"{counted(len(found), 'run')} finished.",), ("input", "runs"), rows)
    first = columns[0]
    means = {name: _of(first, own) for name, own in rows_of.items()}
    sign = 1 if first.least_is_best else -1
    known = sorted(
        (n for n, v in means.items() if v), key=lambda n: (sign * _typical(first, means[n]), n)
    )
    ranked = [*known, *sorted(set(means) - set(known))]
    cells = [
        (name, str(len(rows_of[name])), *(_cell(m, _of(m, rows_of[name])) for m in columns))
        for name in ranked[:MOST_ROWS]
    ]
    note = "Means over the runs of a row; ± is half of the 95 % interval, from five runs on."
    if len(ranked) > MOST_ROWS:
        note += f" {len(ranked) - MOST_ROWS} more rows are in the full table."
    header = ("input", "runs", *(m.heading for m in columns))
    sentences = [_range(measure, rows_of) for measure in columns if measure.best[0]]
    return Block(tuple(sentences[:3]), header, tuple(cells), note)


def _range(measure: Measure, rows_of: dict[str, list[Subject]]) -> str:
    noun = capital(measure.noun)
    values = {name: _of(measure, own) for name, own in rows_of.items()}
    typical = {name: _typical(measure, own) for name, own in values.items() if own}
    if len(typical) == 1:
        (name,) = typical
        count = counted(len(values[name]), "run")
        return f"{noun} is {_cell(measure, values[name])} over {count} on one input."
    low, high = (pick(typical, key=lambda n: (typical[n], n)) for pick in (min, max))
    if typical[low] == typical[high]:
        return f"{noun} is {measure.show(typical[low])} on all {len(typical)} inputs."
    return (
        f"{noun} goes from {measure.show(typical[low])} ({low}) to"
        f" {measure.show(typical[high])} ({high}), over {len(typical)} inputs."
    )


def _of(measure: Measure, own: Sequence[Subject]) -> list[float]:
    return [measure.values[s.run.run_id] for s in own if s.run.run_id in measure.values]


def _typical(measure: Measure, values: Sequence[float]) -> float:
    return measure.typical(values)


def _cell(measure: Measure, values: Sequence[float]) -> str:
    if not values:
        return ""
    half = estimate(values).half_width
    text = measure.show(_typical(measure, values))
    return f"{text} ±{measure.show(half)}" if half else text

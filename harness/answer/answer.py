"""The answer of stored runs, by what their records hold."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from harness.answer import single, trend
from harness.answer.block import Block
from harness.answer.differences import paired
from harness.answer.factors import Number, Subject, is_live, number_of, subjects
from harness.answer.measures import speed
from harness.answer.systems import compare
from harness.answer.units import counted, percent
from harness.results.store import StoredRun

_FINEST = 0.001
"""Share below which the simulator's error is not told more exactly."""
_OF_MACHINE = ("replay_", "decision_latency", "peak_memory")
"""Beginnings of metrics that depend on the machine, also in simulation."""
_MOST_ROWS = 8
"""Most combinations of other options for which a number is the subject."""


def answer(runs: Sequence[StoredRun]) -> Block | None:
    """Return the answer block of some runs; None without runs.

    Live runs answer where there are any; simulated runs of the same systems then tell how far the
    simulator is off. The order of the runs does not matter.
    """
    if not runs:
        return None
    live = [run for run in runs if is_live(run)]
    chosen = live if 0 < len(live) < len(runs) else list(runs)
    block = _of(subjects(chosen))
    if len(chosen) == len(runs):
        return block
    told = _simulated_against_live(subjects(runs))
    count = counted(len(runs) - len(live), "simulated run")
    verb = "is" if len(runs) - len(live) == 1 else "are"
    note = f"{block.note} The {count} {verb} not in this table."
    sentences = block.sentences if told is None else (*block.sentences[:2], told)
    return Block(sentences, block.header, block.rows, note.strip())


def varied_number(runs: Sequence[StoredRun]) -> str | None:
    """Return the word for the number that a sweep varied on purpose; None if it varied none."""
    found = subjects(runs)
    number = number_of(found)
    return number.word if number is not None and _is_subject(number, found) else None


def _of(found: Sequence[Subject]) -> Block:
    if len(found) == 1:
        return single.one(found[0])
    if speed(found):
        return _told(found)
    distinct = _distinct(found)
    block = _told(distinct) if len(distinct) > 1 else single.one(distinct[0])
    if len(distinct) == len(found):
        return block
    note = f"{block.note} Trials that repeat another exactly count once.".strip()
    return Block(block.sentences, block.header, block.rows, note)


def _distinct(found: Sequence[Subject]) -> list[Subject]:
    """Return the runs without trials that repeat an earlier trial of all systems exactly.

    A seed that changes nothing in simulation is not another input.
    """
    trials: dict[tuple[int, int], list[Subject]] = {}
    for subject in sorted(found, key=lambda subject: subject.trial):
        trials.setdefault(subject.trial, []).append(subject)
    seen: set[tuple[str, ...]] = set()
    kept = []
    for own in trials.values():
        outcome = tuple(sorted(map(_outcome, own)))
        if outcome not in seen or any(is_live(subject.run) for subject in own):
            kept += own
        seen.add(outcome)
    return kept


def _outcome(subject: Subject) -> str:
    metrics = {k: v for k, v in subject.run.metrics.items() if not k.startswith(_OF_MACHINE)}
    return repr((sorted(subject.options.items()), sorted(metrics.items())))


def _told(found: Sequence[Subject]) -> Block:
    number = number_of(found)
    if number is not None and _is_subject(number, found):
        told = trend.along(found, number)
        if told is not None:
            return told
    if len({subject.system for subject in found}) > 1:
        compared = compare(found)
        if compared is not None:
            return compared
    return single.by_input(found)


def _is_subject(number: Number, found: Sequence[Subject]) -> bool:
    """Return whether the number is what was varied: other options only make a few rows."""
    rest = {
        tuple(
            (name, repr(value))
            for name, value in sorted(subject.options.items())
            if name not in number.tied and not name.endswith(".contents")
        )
        for subject in found
    }
    systems = {tuple(sorted(subject.factors.items())) for subject in found}
    others = {
        tuple(pair for pair in each if pair[0].split(".")[0] not in _groups(found)) for each in rest
    }
    if len(others) > 1 and len(systems) > 1:
        return False
    return len(others) <= _MOST_ROWS and len(rest) * 2 <= len(found)


def _groups(found: Sequence[Subject]) -> set[str]:
    return {group for subject in found for group in subject.factors}


def _simulated_against_live(found: Sequence[Subject]) -> str | None:
    """Return how far simulated mean JCTs are from live ones of the same systems and inputs."""
    kinds: dict[tuple[str, object, int], tuple[list[float], list[float]]] = {}
    for subject in found:
        value = subject.run.metrics.get("jct_mean_s")
        if value is not None:
            inputs = tuple(own for own in subject.inputs if own[0].split(".")[0] != "engine")
            key = (subject.system, inputs, subject.trial[0])
            kinds.setdefault(key, ([], []))[is_live(subject.run)].append(value)
    pairs = [(fmean(sim), fmean(live)) for sim, live in kinds.values() if sim and live]
    if not pairs:
        return None
    off = paired(pairs)
    if not off.is_ratio:
        return None
    count = counted(len(pairs), "setting")
    if off.side == 0:
        return f"The simulator's mean JCT is not distinguishable from the live one, over {count}."
    gap = abs(off.value - 1)
    where = "below" if off.value < 1 else "above"
    size = percent(gap) if gap >= _FINEST else f"less than {percent(_FINEST)}"
    return f"The simulator's mean JCT is {size} {where} the live one, over {count}."

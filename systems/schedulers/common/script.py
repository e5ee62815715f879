"""Steps of the ``scripted`` scheduler's script: reading and checking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.contracts.view import JobView

_MOMENTS = ("at_s", "at_samples", "at_step", "after_steps")
_GOLDEN = 0.6180339887498949
_KEYS = ("job", *_MOMENTS, "slots", "batch")


class Order(StrEnum):
    """Orders that a step can give instead of a number of slots."""

    SUSPEND = "suspend"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a script: a moment, a job, and the job's slots from then on."""

    job: str | int
    """Job id, or index among the arrivals, counted from 0."""
    action: int | Order
    """Number of slots, or an order."""
    at_s: float | None = None
    """Time on the engine's clock, seconds."""
    at_samples: float | None = None
    """Number of samples that the job has done."""
    at_step: int | None = None
    """Number of steps at the job's own global batch."""
    after_steps: float | None = None
    """Number of such steps since the job got the slots of the previous line (or since its
    start)."""
    batch: int | None = None
    """Global batch with these slots; None: the job's own."""
    slots: tuple[int, ...] | None = None
    """Exact slots, as many as ``action``; None: the placement chooses."""

    @property
    def moment(self) -> str:
        """Name of the field that gives the moment."""
        return next(name for name in _MOMENTS if getattr(self, name) is not None)

    def due_s(self, job: JobView, now_s: float, settled_samples: float | None = None) -> float:
        """Return the time at which the step is due, as far as it is known now.

        The result is at most ``now_s`` if the step is due, and infinite while the job does not
        train.

        Args:
            job: the job in the latest view.
            now_s: present time on the engine's clock.
            settled_samples: samples that the job had done when it got the slots of the previous
                line; None if it has not got them yet.
        """
        if self.at_s is not None:
            return self.at_s
        if self.at_samples is not None:
            threshold = self.at_samples
        elif self.after_steps is not None:
            if settled_samples is None:
                return math.inf
            threshold = settled_samples + self.after_steps * job.spec.global_batch
        else:
            assert self.at_step is not None
            threshold = float(self.at_step * job.spec.global_batch)
        rate = job.samples_per_s
        left = threshold - (job.samples_done + rate * (now_s - job.as_of_s))
        if left <= 1e-6 * max(1.0, rate):  # due within a microsecond of training
            return now_s
        return now_s + left / rate if rate > 0.0 else math.inf


def parse_script(script: Sequence[object]) -> tuple[Step, ...]:
    """Parse the steps of a script from a configuration.

    Raises:
        ValueError: all mistakes in the script, one line each: place, fact and way out.
    """
    problems: list[str] = []
    steps: list[Step] = []
    last: dict[tuple[str | int, str], float] = {}
    for index, entry in enumerate(script):
        place = f"script[{index}]"
        if not isinstance(entry, Mapping):
            problems.append(f"{place} is {entry!r}; give a mapping with job, slots and a moment")
            continue
        found = _problems_of(place, entry)
        problems += found
        if found:
            continue
        step = _step(entry)
        moment = step.moment
        value = float(getattr(step, moment))
        # after_steps counts from the previous step, so any value of it is in order.
        if moment != "after_steps" and value < last.get((step.job, moment), 0.0):
            problems.append(
                f"{place}: {moment} {value:g} of job {step.job!r} comes after a later step; list "
                "the steps of a job in the order of their moments"
            )
        last[step.job, moment] = value
        steps.append(step)
    if problems:
        raise ValueError("\n".join(problems))
    return tuple(steps)


def repeated(script: Sequence[Step], repeat: int, every_s: float) -> tuple[Step, ...]:
    """Return the script ``repeat`` times, one after another.

    Args:
        script: its steps.
        repeat: number of repetitions.
        every_s: ``at_s`` counts from this many seconds later in each repetition.

    Each repetition makes ``after_steps`` longer by another part of a step, so that requests do not
    always fall on the same moment of a step. The parts are multiples of the golden ratio modulo 1,
    which spread evenly for any number of repetitions.

    Raises:
        ValueError: the script cannot be repeated; one line for each problem.
    """
    problems = []
    if repeat < 1:
        problems.append(f"repeat is {repeat}; give 1 or more")
    if repeat > 1 and any(step.moment in ("at_samples", "at_step") for step in script):
        problems.append(
            "repeat cannot be combined with at_samples or at_step; give after_steps, "
            "or at_s and every_s"
        )
    at_s = [step.at_s for step in script if step.at_s is not None]
    if repeat > 1 and at_s and not (math.isfinite(every_s) and every_s >= max(at_s)):
        problems.append(f"every_s is {every_s}; it must be at least the last at_s, {max(at_s):g}")
    if problems:
        raise ValueError("\n".join(problems))
    steps: list[Step] = []
    for number in range(repeat):
        for step in script:
            if step.at_s is not None:
                step = replace(step, at_s=step.at_s + number * every_s)
            if step.after_steps is not None:
                step = replace(step, after_steps=step.after_steps + len(steps) * _GOLDEN % 1.0)
            steps.append(step)
    return tuple(steps)


def _step(entry: Mapping[str, object]) -> Step:
    action, moments = entry["slots"], {name: entry.get(name) for name in _MOMENTS}
    job = entry["job"]
    at_s, at_samples, at_step, after_steps = moments.values()
    batch = entry.get("batch")
    exact = tuple(action) if isinstance(action, Sequence) and not isinstance(action, str) else None
    if exact is not None:
        action = len(exact)
    return Step(
        job=job if isinstance(job, int) else str(job),
        action=action if isinstance(action, int) else Order(str(action)),
        at_s=float(at_s) if isinstance(at_s, int | float) else None,
        at_samples=float(at_samples) if isinstance(at_samples, int | float) else None,
        at_step=at_step if isinstance(at_step, int) else None,
        after_steps=float(after_steps) if isinstance(after_steps, int | float) else None,
        batch=batch if isinstance(batch, int) else None,
        slots=exact,
    )


def _problems_of(place: str, entry: Mapping[str, object]) -> list[str]:
    problems = [
        f"{place}: unknown key {key!r}; known: {', '.join(_KEYS)}"
        for key in entry
        if key not in _KEYS
    ]
    job = entry.get("job")
    is_index = isinstance(job, int) and not isinstance(job, bool) and job >= 0
    if not (is_index or (isinstance(job, str) and job)):
        problems.append(f"{place}: job is {job!r}; give a job id, or an index of arrival from 0")
    action = entry.get("slots")
    is_count = isinstance(action, int) and not isinstance(action, bool) and action >= 1
    is_exact = _is_slots(action)
    if not (is_count or is_exact or (isinstance(action, str) and action in set(Order))):
        problems.append(
            f"{place}: slots is {action!r}; give a number from 1, {Order.SUSPEND} or"
            f" {Order.REFUSE}, or a list of different slots"
        )
    batch = entry.get("batch")
    if batch is not None:
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            problems.append(f"{place}: batch is {batch!r}; give a global batch from 1")
        if not (is_count or is_exact):
            problems.append(f"{place}: batch without slots; give the slots that train with it")
    given = [name for name in _MOMENTS if entry.get(name) is not None]
    if len(given) != 1:
        told = " and ".join(given) if given else "no moment"
        problems.append(f"{place}: has {told}; give exactly one of {', '.join(_MOMENTS)}")
    for name in given:
        value = entry[name]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name == "at_step":
            number = number and isinstance(value, int)
        if not (number and math.isfinite(float(str(value))) and float(str(value)) >= 0):
            kind = "a whole number" if name == "at_step" else "a number"
            problems.append(f"{place}: {name} is {value!r}; give {kind} from 0")
    return problems


def _is_slots(action: object) -> bool:
    """Return whether the value is a list of different slots."""
    if not isinstance(action, Sequence) or isinstance(action, str) or not action:
        return False
    whole = all(
        isinstance(slot, int) and not isinstance(slot, bool) and slot >= 0 for slot in action
    )
    return whole and len(set(action)) == len(action)

"""Search for the first difference between two jobs, in the order of cause and effect."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from harness.consistency.job_files import Array, JobFiles
from harness.contracts.evidence import COMMON, Stage

PARTS = {
    Stage.PARAMETERS: "the state before the step",
    Stage.POSITIONS: "data order",
    Stage.SAMPLES: "data order",
    Stage.BUFFERS: "buffers",
    Stage.RANDOM: "random state",
    Stage.OPERATORS: "kernel",
    Stage.LOSS: "kernel",
    Stage.BACKWARD: "kernel",
    Stage.GRADIENTS: "kernel",
    Stage.LAYOUT: "bucket layout",
    Stage.REDUCED: "reduction",
    Stage.OPTIMIZER: "update",
    Stage.UPDATED: "update",
}
"""Part of the stack that a stage points to, if all earlier stages are equal."""
WATCHED = (Stage.OPERATORS, Stage.BACKWARD)
"""Stages whose names depend on the watched modules and on the operators that ran. There, a name
that only one job has is no difference."""
MEAN_ROUNDING = 2.0**-40
"""Relative difference of two means that rounding can explain. Workers' losses are floats of 24
bits. Their mean is a float of 53, and its last bits depend on the order of the sum. With up to some
thousands of workers, a difference of one loss by its last bit is larger than this."""


@dataclass(frozen=True)
class Difference:
    """First place where two jobs differ."""

    step: int
    stage: Stage | None
    """Stage of the step; None: only losses or digests of this step were recorded."""
    worker: str
    name: str
    """Name of the tensor, state or number."""
    part: str
    """Part of the stack, as far as it is known."""
    element: tuple[int, ...] | None = None
    """Index of the first element that differs, if the tensors were kept."""
    values: tuple[float, float] | None = None
    """The two values of that element."""
    num_elements: int = 0
    """Number of elements that differ."""
    largest: float = 0.0
    """Largest difference between two elements."""
    notes: list[str] = field(default_factory=list)


def first_difference(one: JobFiles, other: JobFiles) -> Difference | None:
    """Return the first difference of the jobs; None if all that both have recorded is equal."""
    unexplained = _unexplained(one, other)
    for step in sorted(set(one.evidence_steps) & set(other.evidence_steps)):
        if unexplained is not None and unexplained.step < step:
            break  # losses or digests differ before: later evidence shows only consequences
        found = _in_step(one, other, step)
        if found is not None:
            return found
    return unexplained


def _in_step(one: JobFiles, other: JobFiles, step: int) -> Difference | None:
    workers = one.workers(step)
    if workers != other.workers(step):
        names = [f"{', '.join(jobs.workers(step)) or 'none'}" for jobs in (one, other)]
        note = f"logical workers {names[0]} in one and {names[1]} in the other"
        return Difference(step, Stage.SAMPLES, COMMON, "workers", "logical workers", notes=[note])
    for stage in Stage:
        for worker in (COMMON, *workers):
            key = step, stage, worker
            if key not in one.stages or key not in other.stages:
                continue  # only one job recorded it, for example the layout of stock training
            found = _in_stage(one, other, step, stage, worker)
            if found is not None:
                return found
    return None


NOTES = {
    Stage.OPERATORS: "everything watched before it is equal, so the difference arises in this "
    "module",
    Stage.BACKWARD: "forward passes and all gradients watched before it are equal, so the "
    "difference arises in this operator's backward pass",
}
"""Further conclusion from the stage of the first difference."""


def _in_stage(
    one: JobFiles, other: JobFiles, step: int, stage: Stage, worker: str
) -> Difference | None:
    mine, theirs = one.stages[step, stage, worker], other.stages[step, stage, worker]
    if stage is Stage.LAYOUT and not (mine and theirs):
        return None
    for name in dict.fromkeys([*mine, *theirs]):
        if mine.get(name) == theirs.get(name):
            continue
        if stage in WATCHED and not (name in mine and name in theirs):
            continue
        part = PARTS[stage]
        which = step, Stage.POSITIONS, worker
        if stage is Stage.SAMPLES and which in one.stages and which in other.stages:
            part = "random state of the samples"  # the ids are equal: positions come before samples
        if stage is Stage.PARAMETERS:
            part = f"{part} ({_origin(one, other, step)})"
        if stage is Stage.RANDOM:
            others = [n for n in mine if n != name and mine.get(n) != theirs.get(n)]
            part = f"{part} ({', '.join([name, *others])})"
        pair = one.tensor(step, worker, stage, name), other.tensor(step, worker, stage, name)
        notes = [NOTES[stage]] if stage in NOTES else []
        found = Difference(step, stage, worker, name, part, notes=notes)
        if pair[0] is None or pair[1] is None:
            return found
        return _with_elements(found, pair[0], pair[1])
    return None


def _origin(one: JobFiles, other: JobFiles, step: int) -> str:
    """Return the possible origin of parameters that differ before a step."""
    if step == 1:
        return "the initial states of the jobs"
    if step - 1 in one.evidence_steps and step - 1 in other.evidence_steps:
        return f"lost or changed after step {step - 1}, whose evidence agrees"
    return f"no evidence of the steps before {step} was kept, so the cause is unknown"


def _with_elements(at: Difference, mine: Array, theirs: Array) -> Difference:
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        note = f"{mine.dtype}{mine.shape} in one and {theirs.dtype}{theirs.shape} in the other"
        return replace(at, notes=[*at.notes, note])
    if not mine.ndim:
        mine, theirs = mine.reshape(1), theirs.reshape(1)
    same_bits = (
        np.ascontiguousarray(mine).view(np.uint8).reshape(mine.size, -1)
        == np.ascontiguousarray(theirs).view(np.uint8).reshape(mine.size, -1)
    ).all(axis=1)
    first = int(np.flatnonzero(~same_bits)[0])
    element = tuple(int(index) for index in np.unravel_index(first, mine.shape))
    gap = np.abs(mine.astype(np.float64) - theirs.astype(np.float64))
    return replace(
        at,
        element=element,
        values=(float(mine[element]), float(theirs[element])),
        num_elements=int((~same_bits).sum()),
        largest=float(gap.max()),
    )


@dataclass(frozen=True)
class Compared:
    """Numbers of steps whose losses were compared."""

    exact: int
    """Number of steps whose losses were compared bit by bit: those of all workers, or two means."""
    means: int
    """Number of steps with only comparable means, since one job's log has other losses."""

    @property
    def words(self) -> str:
        """Text for a user."""
        parts = [f"losses of {self.exact} steps"] if self.exact else []
        if self.means:
            parts.append(
                f"mean losses of {self.means} steps (to {-math.log10(MEAN_ROUNDING):.0f} digits:"
                " the logs have different numbers of losses in a step)"
            )
        return " and ".join(parts)


def compared(one: JobFiles, other: JobFiles) -> Compared:
    """Return how many steps' losses can be compared, exactly and by their means."""
    shared = set(one.losses) & set(other.losses)
    exact = sum(_have_same_losses(one, other, step) for step in shared)
    return Compared(exact, len(shared) - exact)


def _unexplained(one: JobFiles, other: JobFiles) -> Difference | None:
    """Return the first difference in losses and digests alone, without a cause."""
    shared = sorted(set(one.losses) & set(other.losses))
    at_loss = next((step for step in shared if _losses_differ(one, other, step)), None)
    at_digest = next(
        (
            step
            for step in sorted(set(one.digests) & set(other.digests))
            if one.digests[step] != other.digests[step]
        ),
        None,
    )
    known = [step for step in (at_loss, at_digest) if step is not None]
    if known:
        step = min(known)
        part = "unknown: no evidence of this step was kept"
        if step == at_loss:
            return _of_losses(one, other, step, part)
        name = _first_name(one.digests[step], other.digests[step])
        return Difference(step, None, COMMON, name, part)
    last = (max(one.losses, default=0), max(other.losses, default=0))
    if last[0] != last[1]:
        note = f"{last[0]} steps were executed in one and {last[1]} in the other"
        return Difference(min(last) + 1, None, COMMON, "steps", "length", notes=[note])
    names = set(one.end) & set(other.end)
    for name in sorted(names):
        if one.end[name] != other.end[name]:
            words = compared(one, other).words
            part = f"unknown: no evidence was kept, and what was compared before is equal: {words}"
            return Difference(last[0], None, COMMON, name, part)
    return None


def _have_same_losses(one: JobFiles, other: JobFiles, step: int) -> bool:
    """Return whether both logs have the same number of losses in a step, so that they are
    comparable."""
    return len(one.losses[step]) == len(other.losses[step])


def _losses_differ(one: JobFiles, other: JobFiles, step: int) -> bool:
    if _have_same_losses(one, other, step):
        return one.losses[step] != other.losses[step]
    mine, theirs = (float.fromhex(jobs.means[step]) for jobs in (one, other))
    if math.isnan(mine) and math.isnan(theirs):
        return False
    return not math.isclose(mine, theirs, rel_tol=MEAN_ROUNDING)


def _of_losses(one: JobFiles, other: JobFiles, step: int, part: str) -> Difference:
    if _have_same_losses(one, other, step):
        return Difference(step, None, COMMON, "loss", part)
    counts = [len(jobs.losses[step]) for jobs in (one, other)]
    note = (
        f"the step's log has {counts[0]} losses in A and {counts[1]} in B, so means were compared"
    )
    return Difference(step, None, COMMON, "mean loss", part, notes=[note])


def _first_name(mine: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    return next(n for n in sorted({*mine, *theirs}) if mine.get(n) != theirs.get(n))

"""Measurement of a profile on this machine, by one-job replays under the ``scripted`` scheduler.

A measured point is an ordinary run, stored like any other. Its only job visits every size by every
direct way (each ordered pair of sizes once), is suspended and resumed at every size, and then
finishes. Trial r begins at size r, so that every size is also a first size.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from harness.configuration.compose import quote
from harness.configuration.instantiate import build
from harness.configuration.study import Point
from harness.contracts.abilities import Abilities
from harness.contracts.process import Warmth
from harness.errors import Problem, UserError
from harness.metrics.step_periods import WARM_UP_STEPS
from harness.profiles.measurement import Measurement
from harness.run.workload_pool import read_pool
from harness.sweep.runner import Sweep, read_words
from harness.trace.commands.one_job import write_one_job

_SOURCE = "written by python -m harness.profile measure"


_AFTER_EVERYTHING_S = 1e6
"""Unit of time for scripted resumes: the n-th resume is due at n times this. While the only job is
suspended nothing runs, and the live engine jumps to the resume at once."""


def points_of(measurement: Measurement) -> Sweep:
    """Return the runs to make, as a sweep.

    Raises:
        UserError: the configuration is wrong; all mistakes at once.
    """
    common = [
        f"workload={measurement.pool}",
        f"cluster={measurement.cluster}",
        "scheduler=scripted",
        "engine=live",
        "engine.fast_forward=false",
        "profile=recorded",
        "tracking=none",
        *measurement.words,
    ]
    sizes = measurement.sizes
    points = []
    for trial in range(measurement.trials):
        turned = sizes[trial % len(sizes) :] + sizes[: trial % len(sizes)]
        for backend in measurement.backends:
            pool, warmths, abilities = _look_at(measurement, common, backend)
            can_rescale, can_suspend = abilities.rescale, abilities.suspend
            num_visits = len(script_visits(turned, can_rescale, can_suspend))
            # As many virtual workers as the largest size, so that every size is allowed.
            workers = max(sizes) if abilities.logical_workers else None
            for workload, warmth, placement in product(
                pool, measurement.warmths or (None,), measurement.placements or (None,)
            ):
                if warmth is not None and warmth not in warmths:
                    continue
                counted = measurement.steps_of.get(workload, measurement.steps)
                script = script_of(turned, counted, can_rescale, can_suspend)
                for batch in measurement.batches:
                    steps = num_visits * (WARM_UP_STEPS + counted)
                    trace = write_one_job(
                        measurement.folder, workload, batch, turned, steps, _SOURCE, workers
                    )
                    words = [
                        f"trace={trace}",
                        f"backend={backend}",
                        f"scheduler.script={quote(script)}",
                        f"repetition={trial}",
                    ]
                    axes = {"backend": backend}
                    if warmth is not None:
                        words.append(f"backend.start={warmth.value}")
                        axes["warmth"] = warmth.value
                    if placement is not None:
                        words.append(f"placement={placement}")
                        axes["placement"] = placement
                    axes |= {"workload": workload, "batch": str(batch), "trial": str(trial)}
                    points.append(Point(tuple(words), axes))
    return Sweep(f"profile-{measurement.name}", common, points)


def _look_at(
    measurement: Measurement, common: Sequence[str], backend: str
) -> tuple[tuple[str, ...], Sequence[Warmth], Abilities]:
    """Return the workloads to measure, and the backend's warmths and abilities."""
    config = read_words([*common, f"backend={backend}"])
    pool = tuple(read_pool(config.workload))
    problems: list[Problem | str] = []
    for option, names in (
        ("--workloads", measurement.workloads),
        ("--steps", tuple(measurement.steps_of)),
    ):
        if unknown := [name for name in names if name not in pool]:
            fact = f"not in pool {measurement.pool}: {', '.join(unknown)}"
            problems.append(Problem(option, fact, f"known: {', '.join(pool)}"))
    if problems:
        raise UserError(problems)
    built = build(config.backend, "backend")
    abilities: Abilities = built.abilities
    warmths = tuple(map(Warmth, built.warmths))
    return measurement.workloads or pool, warmths, abilities


def tour(sizes: Sequence[int]) -> list[int]:
    """Return a closed path from the first size that contains every ordered pair of sizes exactly
    once."""
    left = {size: [other for other in sizes if other != size] for size in sizes}
    stack, way = [sizes[0]], []
    while stack:
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop(0))
        else:
            way.append(stack.pop())
    return way[::-1]


def script_visits(
    sizes: Sequence[int], can_rescale: bool, can_suspend: bool
) -> list[tuple[int, bool]]:
    """Return the sizes in order of visit, and whether the job is suspended before each visit."""
    visits = [(size, False) for size in (tour(sizes) if can_rescale else sizes[:1])]
    if can_suspend:
        visits += [(size, True) for size in sizes]
    return visits


def script_of(
    sizes: Sequence[int], steps: int, can_rescale: bool, can_suspend: bool
) -> list[dict[str, object]]:
    """Return the script of one run: a change to the next visit after each stretch of steps."""
    script: list[dict[str, object]] = []
    for number, (size, suspended) in enumerate(script_visits(sizes, can_rescale, can_suspend)):
        at_step = number * (WARM_UP_STEPS + steps)
        if suspended:
            script.append({"job": 0, "at_step": at_step, "slots": "suspend"})
            script.append({"job": 0, "at_s": number * _AFTER_EVERYTHING_S, "slots": size})
        elif number > 0:
            script.append({"job": 0, "at_step": at_step, "slots": size})
    return script

"""A standby: a spare that has built the programs of the run's jobs, and waits for a worker's order.

With the order it only has to connect and take the job's state. If the order names a program that it
has not built, it builds it then, as any worker does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from systems.runtime.reduction.ordered import OrderedReduction, join_alone
from systems.runtime.wire.recipe import Recipe
from systems.runtime.worker.session import (
    Program,
    ProgramOrder,
    Stopwatch,
    build,
    choose_device,
    import_workload,
)
from systems.runtime.worker.trainer import on_device
from systems.runtime.worker.warm_up import warm_up_spare


@dataclass(frozen=True, slots=True)
class _Build:
    """Recipe on this process's slot; implements ``ProgramOrder``."""

    workload: str
    options: dict[str, object]
    seed: int
    device: str
    device_type: str
    num_threads: int
    common_kernels: bool
    keeps_bits: bool = False


_built: dict[str, tuple[ProgramOrder, Program]] = {}
"""Programs that this process has built and no worker has taken, by ``_identity``."""


def prepare(argv: Sequence[str]) -> int:
    """Prepare a standby, after a warm-up; arguments: ``DEVICE DEVICE_TYPE NUM_THREADS
    RECIPE...``.

    A program that cannot be built is left to its job's own workers, which report the reason.
    Torch's random states are restored. Unlike a spare, a standby has threads, those of its process
    group.
    """
    device, device_type, num_threads, *recipes = argv
    if (code := warm_up_spare((device, device_type))) != 0:
        return code
    is_cuda = choose_device(device, device_type).type == "cuda"
    with torch.random.fork_rng([0] if is_cuda else []):
        for recipe in map(Recipe.from_json, recipes):
            order = _Build(
                recipe.workload,
                dict(recipe.options),
                recipe.seed,
                device,
                device_type,
                int(num_threads),
                recipe.common_kernels,
            )
            try:
                _built[_identity(order)] = order, _built_by(order, recipe)
            # Its own job reports the error; the other programs are still built.
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
                print(f"a standby cannot build {recipe.workload}: {told}", file=sys.stderr)
    if is_cuda:
        # Return the warm-up's memory, which workers on the device may need.
        torch.cuda.empty_cache()
    return 0


def program_for(order: ProgramOrder, watch: Stopwatch, *, takes_state: bool) -> Program:
    """Return a worker's program, which this process has already built or builds now.

    Args:
        order: order of the worker.
        watch: records the time for importing and for building.
        takes_state: true if all values are loaded, or come from another worker, before the first
            step. Otherwise only a program with the same seed can be used.
    """
    program = _take(order, takes_state=takes_state)
    if program is not None:
        watch.done("import")
    else:
        workload_class = import_workload(order)
        watch.done("import")
        program = build(order, workload_class)
    watch.done("build")
    return program


def _take(order: ProgramOrder, *, takes_state: bool) -> Program | None:
    found = _built.get(_identity(order))
    # Free the memory of programs that this worker does not train.
    _built.clear()
    # A job that keeps its bits is built with stricter settings than a standby uses.
    if found is None or order.keeps_bits:
        return None
    is_whole = takes_state and not _has_more_than_state(found[1].model)
    return found[1] if is_whole or found[0].seed == order.seed else None


def _has_more_than_state(model: torch.nn.Module) -> bool:
    """Return whether a model has tensors that may depend on the seed but are neither loaded nor
    sent."""
    state = ("_parameters", "_buffers")
    held = [v for module in model.modules() for k, v in vars(module).items() if k not in state]
    held += [each for value in held if isinstance(value, dict) for each in value.values()]
    held += [each for value in held if isinstance(value, list | tuple) for each in value]
    return any(isinstance(value, torch.Tensor | np.ndarray) for value in held)


def _identity(order: ProgramOrder) -> str:
    place = order.device, order.device_type, order.num_threads, order.common_kernels
    return json.dumps([order.workload, dict(order.options), *place], sort_keys=True)


def _built_by(order: ProgramOrder, recipe: Recipe) -> Program:
    """Return a program with its first values, after passes with the recipe's batch sizes."""
    workload_class = import_workload(order)
    batches = _practised(build(order, workload_class), recipe.batches)
    program = build(order, workload_class)
    if not recipe.is_reduced:
        return program
    join_alone()
    reduction = OrderedReduction(program.model, program.optimizer, program.device)
    for number, batch in enumerate(batches):
        make_loss = partial(_loss, program, reduction.parallel, batch)
        reduction.warm_up(make_loss, rounds=2 if number == 0 else 1)
    return replace(program, reduction=reduction, batches=frozenset(batches))


def _practised(program: Program, batches: Sequence[int]) -> list[int]:
    """Return the batch sizes that the program accepts; the first one must work, the others are
    guesses.

    The steps are real, so the program is discarded afterwards. Its memory stays in this process's
    heap, already touched.
    """
    taken = []
    for number, batch in enumerate(batches):
        try:
            torch.autograd.backward(_loss(program, program.model, batch))
            program.workload.update(program.optimizer, batch, 0, 0)
        except Exception:
            if number == 0:
                raise
        else:
            taken.append(batch)
    return taken


def _loss(program: Program, model: torch.nn.Module, batch: int) -> torch.Tensor:
    workload = program.workload
    ids = [index % workload.num_samples for index in range(batch)]
    return workload.loss(model, on_device(workload.samples(ids), program.device))

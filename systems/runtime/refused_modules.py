"""Modules whose training would not be that of all workers together, found before it begins.

Where gradients are added up by us, the default group is this process alone (``join_alone``).
SyncBatchNorm asks that group for the others' statistics, and would train as BatchNorm without a
word (on a CPU torch refuses it by itself). Memory for the sums is laid out once, dense.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn


class RefusedModuleError(RuntimeError):
    """A model has such modules; the text names one."""


def check_modules(model: nn.Module) -> None:
    """Before anybody trains.

    Raises:
        RefusedModuleError: a module wants all workers' statistics, or makes sparse gradients.
    """
    named = list(model.named_modules())
    synced = [name for name, module in named if isinstance(module, nn.SyncBatchNorm)]
    sparse = [
        name
        for name, module in named
        if isinstance(module, nn.Embedding | nn.EmbeddingBag)
        and module.sparse
        and module.weight.requires_grad
    ]
    problems = []
    if synced:
        problems.append(
            f"{len(synced)} modules are SyncBatchNorm, such as {synced[0]}: they would normalise"
            " by one worker's samples here, not by all workers'; use BatchNorm, or backend=static"
        )
    if sparse:
        problems.append(
            f"{len(sparse)} modules have sparse gradients, such as {sparse[0]}: gradients are"
            " added up in dense memory here; make them with sparse=False"
        )
    if problems:
        raise RefusedModuleError("\n".join(problems))


@contextmanager
def refusing_sparse_gradients(model: nn.Module) -> Iterator[None]:
    """Within, a backward pass that gives a parameter a sparse gradient raises RefusedModuleError:
    functions make such, too, and no module tells."""
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    without_hooks = [p for _, p in trained if p._backward_hooks is None]
    hooks = [
        parameter.register_hook(  # type: ignore[no-untyped-call]
            partial(_refuse_sparse, name)
        )
        for name, parameter in trained
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        # What called the hook stays, and every later backward pass takes the interpreter's lock
        # for each parameter, to call nothing: 1 to 2 % of a step of ResNet50 (torch 2.13).
        for parameter in without_hooks:
            if not parameter._backward_hooks:
                parameter._backward_hooks = None


def _refuse_sparse(name: str, gradient: torch.Tensor) -> None:
    if gradient.layout is not torch.strided:
        raise RefusedModuleError(
            f"the gradient of {name} is sparse, but gradients are added up in dense memory here;"
            " compute it with sparse=False"
        )

"""Detection of modules whose training would differ from that of all workers together.

In an ordered reduction the default process group is this process alone (``join_alone``).
SyncBatchNorm asks that group for the other workers' statistics. The module would silently train as
BatchNorm; on a CPU torch itself refuses it. Sparse gradients are refused because the memory for
sums is laid out once, dense.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn

from harness.errors import WorkerError


class RefusedModuleError(WorkerError, RuntimeError):
    """A model has modules that cannot be trained here; the text names one."""


def check_modules(model: nn.Module) -> None:
    """Check a model's modules before training.

    Raises:
        RefusedModuleError: a module needs all workers' statistics, or makes sparse gradients.
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
    """Raise RefusedModuleError if a backward pass within the context makes a sparse gradient.

    Functions can make such gradients too, which ``check_modules`` cannot see.
    """
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
        # Torch keeps the object that called the hook. Every later backward pass would take the
        # interpreter's lock for each parameter without need: 1 to 2 % of a step of ResNet50 (torch
        # 2.13).
        for parameter in without_hooks:
            if not parameter._backward_hooks:
                parameter._backward_hooks = None


def _refuse_sparse(name: str, gradient: torch.Tensor) -> None:
    if gradient.layout is not torch.strided:
        raise RefusedModuleError(
            f"the gradient of {name} is sparse, but gradients are added up in dense memory here;"
            " compute it with sparse=False"
        )

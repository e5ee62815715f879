"""A script's optimizer, whose steps go through the job.

The optimizer stays the same object, so that schedulers made before or after ``init`` hold the right
one. Its ``step`` asks the job to commit the step; the job then calls the optimizer's own ``step``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch

from systems.script.errors import ScriptError
from systems.script.step_calls import StepCalls

CLOSURE = (
    "optimizer.step() was given a closure, which computes gradients several times in one step;"
    " use an optimizer that needs none"
)


def make_elastic(optimizer: torch.optim.Optimizer, run: StepCalls) -> Callable[[], None]:
    """Make the optimizer's steps go through the job, and return its own ``step``."""
    own_step, own_zero_grad = optimizer.step, optimizer.zero_grad

    def step(self: Any, closure: object = None) -> None:
        if closure is not None:
            raise ScriptError(CLOSURE)
        self._opt_called = True  # a scheduler checks this before its first step
        run.update()

    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        run.zeroed()
        # Zeros would be copied into the buckets in the next backward pass.
        own_zero_grad(set_to_none=True)

    # A scheduler marks the ``step`` that it has wrapped, and warns where it finds another.
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    instance: Any = optimizer
    instance.step = MethodType(step, optimizer)
    instance.zero_grad = MethodType(zero_grad, optimizer)
    # A gradient scaler does not call ``step`` for an update that it skips. With this flag it always
    # calls, and passes its scale and whether gradients are not finite.
    instance._step_supports_amp_scaling = True

    def update() -> None:
        scaling = _taken(instance)
        try:
            own_step()
        finally:
            instance.__dict__.update(scaling)  # the scaler deletes them afterwards

    return update


def unscale(optimizer: torch.optim.Optimizer) -> bool:
    """Divide the gradients by the scale of the script's gradient scaler, if it calls ``step``.

    Returns:
        False if a gradient is not finite, so that the update is to be skipped. The gradients are
        the workers' mean, so all workers return the same.
    """
    scale = getattr(optimizer, "grad_scale", None)
    found_inf = getattr(optimizer, "found_inf", None)
    if found_inf is not None and bool(found_inf):
        return False
    if scale is not None:  # None: the script has called unscale_ itself
        gradients = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        torch._foreach_mul_(gradients, scale.double().reciprocal().float())
    return True


def _taken(instance: Any) -> dict[str, Any]:
    """Remove and return what the scaler has set: a fused optimizer would divide a second time."""
    names = ("grad_scale", "found_inf")
    return {name: instance.__dict__.pop(name) for name in names if name in instance.__dict__}

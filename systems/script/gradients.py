"""Gradients of a script between its backward pass and its update.

A script may clip or mask its gradients or add noise to them, in place or by new tensors. The update
gets what the script leaves. All workers do the same, since all see the workers' mean.

Refused is what cannot be right: gradients of the last step that were never set to zero, a second
backward pass in a step, and a gradient that was set to None.
"""

from __future__ import annotations

from typing import Any

import torch

from systems.runtime.reduction.ordered import OrderedReduction
from systems.script.checks import StepChecks
from systems.script.errors import ScriptError


class ScriptGradients:
    """Watch over a script's gradients, in one process."""

    def __init__(self) -> None:
        self._reduction: OrderedReduction | None = None
        """Reduction of the present step, from its backward pass to its update; else None."""
        self._old: OrderedReduction | None = None
        """Reduction of the last step, whose gradients may still be there."""
        self._versions: list[int] = []
        self._are_stale = False
        """Whether a plain script would have added this step's gradients to the last step's."""
        self._was_added_to = False

    def watch(self) -> None:
        """Watch every backward pass from now on, until the process ends.

        A second backward pass in a step is refused, since only the first is reduced, as in
        DistributedDataParallel.
        """
        backward = torch.autograd.backward

        def watched(*args: Any, **kwargs: Any) -> None:
            if kwargs.get("create_graph") or args[3:4] == (True,):
                raise ScriptError(
                    "backward() was called with create_graph=True, which needs gradients that are"
                    " not shared; compute them by torch.autograd.grad(..., create_graph=True)"
                )
            before = None if self._reduction is None else _versions(self._reduction)
            backward(*args, **kwargs)
            if before is not None and self._reduction is not None:
                self._was_added_to |= _versions(self._reduction) != before

        torch.autograd.backward = watched

    def see_old(self) -> None:
        """Note before a draw whether the last step's gradients are left, and set them to None."""
        reduction, self._old = self._old, None
        self._reduction = None
        self._are_stale = False
        if reduction is None:
            return
        parameters = list(reduction.parallel.parameters())
        self._are_stale = any(parameter.grad is not None for parameter in parameters)
        if self._are_stale and _versions(reduction) != self._versions:
            self._are_stale = any(bool(bucket.any()) for bucket in reduction.buckets)
        for parameter in parameters:
            parameter.grad = None

    def zeroed(self) -> None:
        """Note a ``zero_grad()``, before or after the forward pass."""
        self._are_stale = False

    def are_new(self, reduction: OrderedReduction) -> None:
        """Begin to watch the gradients after the backward pass of a step."""
        self._reduction = reduction
        self._was_added_to = False

    def are_old(self, reduction: OrderedReduction) -> None:
        """Note that an update was made with the gradients."""
        self._reduction = None
        self._old = reduction
        self._versions = _versions(reduction)

    def check(self, reduction: OrderedReduction, checks: StepChecks) -> None:
        """Check the gradients before an update, and copy replaced ones into the buckets.

        Raises:
            ScriptError: the update would not be that of a plain script.
        """
        self._reduction = None
        if self._are_stale:
            raise ScriptError(
                "the gradients of the step before were not set to zero; call"
                " optimizer.zero_grad() in every step"
            )
        if self._was_added_to:
            raise ScriptError(
                "there were two backward passes in one step, and only the first was shared with"
                " the other workers; add the losses up and call backward() once"
            )
        reduction.take_gradients()
        if names := checks.without_gradient():
            raise ScriptError(
                f"the gradient of {names[0]} was set to None between backward() and"
                " optimizer.step(); set it to zero, or freeze the parameter before init()"
            )


def _versions(reduction: OrderedReduction) -> list[int]:
    return [bucket._version for bucket in reduction.buckets]

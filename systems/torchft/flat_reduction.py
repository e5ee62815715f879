"""Reduction of all gradients as one tensor by torchft's manager, after the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from systems.runtime.reduction.refused_modules import RefusedModuleError, check_modules
from systems.runtime.reduction.unused_parameters import unused
from systems.torchft.membership import Membership


class FlatReduction:
    """Mean of gradients over the replicas that train; implements ``Reduction``.

    torchft's own DistributedDataParallel is not used: in version 0.2 its errors ended the
    survivors of most deaths. As in a user's program, each replica has its own buffers, and a step
    that does not count has changed them.
    """

    parallel: torch.nn.Module

    def __init__(self, model: torch.nn.Module, membership: Membership) -> None:
        """Prepare the reduction of a model, which must be on its device.

        Raises:
            RefusedModuleError: the model has modules that could not be trained.
        """
        check_modules(model)
        self.parallel = model
        self._membership = membership
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        self._names = [name for name, _ in named]
        self._parameters = [parameter for _, parameter in named]
        kinds = {(p.dtype, p.device): None for p in self._parameters}
        self._groups = [
            [p for p in self._parameters if (p.dtype, p.device) == kind] for kind in kinds
        ]
        self._flats: list[torch.Tensor] = []

    @property
    def layout_in_use(self) -> Sequence[Sequence[int]]:
        """All parameters of a data type in one bucket."""
        places = {id(parameter): place for place, parameter in enumerate(self._parameters)}
        return [[places[id(p)] for p in group] for group in self._groups]

    @property
    def kept_layout(self) -> Sequence[Sequence[str]]:
        """Empty: a job may go on with any layout."""
        return ()

    def needs_warm_up(self, step: int) -> bool:
        """Return False."""
        return False

    def warm_up(self, make_loss: Callable[[], torch.Tensor]) -> None:
        """Do nothing."""

    def begin(self) -> None:
        """Do nothing: each replica has its own buffers."""

    def finish(self) -> None:
        """Make gradients the mean of the replicas that train.

        Raises:
            GroupLost: the step has failed.
            UnusedParameterError: a parameter has no part in the loss.
            RefusedModuleError: a gradient is sparse.
        """
        self._check()
        flats = self._memory()
        for flat, group in zip(flats, self._groups, strict=True):
            gradients = [p.grad for p in group if p.grad is not None]
            torch._foreach_copy_(_views(flat, group), gradients)
        self._reduce(flats)

    def follow(self) -> None:
        """Take the mean of the replicas that train, without gradients of this replica.

        Raises:
            GroupLost: the step has failed.
        """
        self._reduce(self._memory())

    def undo(self) -> None:
        """Do nothing: buffers keep the effects of the forward pass."""

    def commit(self) -> None:
        """Do nothing: each step counts at once."""

    def _memory(self) -> list[torch.Tensor]:
        if not self._flats:
            self._flats = [
                torch.empty(sum(p.numel() for p in group), dtype=group[0].dtype).to(group[0].device)
                for group in self._groups
            ]
        return self._flats

    def _reduce(self, flats: Sequence[torch.Tensor]) -> None:
        # A failed sum may still write to its memory, so the memory is kept only after a success.
        self._flats = []
        self._membership.wait([self._membership.mean(flat) for flat in flats])
        for flat, group in zip(flats, self._groups, strict=True):
            for parameter, view in zip(group, _views(flat, group), strict=True):
                parameter.grad = view
        self._flats = list(flats)

    def _check(self) -> None:
        gradients = [parameter.grad for parameter in self._parameters]
        named = list(zip(self._names, gradients, strict=True))
        if missing := [name for name, gradient in named if gradient is None]:
            raise unused(missing)
        sparse = [name for name, g in named if g is not None and g.layout is not torch.strided]
        if sparse:
            raise RefusedModuleError(
                f"{len(sparse)} gradients are sparse, such as that of {sparse[0]}: gradients are"
                " added up in dense memory here; make them with sparse=False"
            )


def _views(flat: torch.Tensor, parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    pieces = torch.split(flat, [parameter.numel() for parameter in parameters])
    return [piece.view(p.shape) for piece, p in zip(pieces, parameters, strict=True)]

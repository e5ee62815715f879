"""Stock DistributedDataParallel as a reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn.parallel import DistributedDataParallel


class StockReduction:
    """DistributedDataParallel on the default process group.

    Stock DistributedDataParallel broadcasts buffers before a forward pass. The process ends if the
    group is lost.
    """

    parallel: torch.nn.Module

    def __init__(self, model: torch.nn.Module, device: torch.device, *, replays: bool) -> None:
        """Wrap the model, which must be on its device.

        ``replays`` is true if a resumed job must have the bucket layout of an uninterrupted one.
        """
        device_ids = [0] if device.type == "cuda" else None
        self._model = model
        self.parallel = DistributedDataParallel(model, device_ids=device_ids)
        self._replays = replays

    @property
    def layout_in_use(self) -> Sequence[Sequence[int]]:
        """Empty: the layout is not known."""
        return ()

    @property
    def kept_layout(self) -> Sequence[Sequence[str]]:
        """Empty: the layout is not known."""
        return ()

    def needs_warm_up(self, step: int) -> bool:
        """Return whether the layout is replayed here; the first step of all never needs it."""
        return self._replays and step > 0

    def warm_up(self, make_loss: Callable[[], torch.Tensor]) -> None:
        """Run one pass; DistributedDataParallel rebuilds the buckets at the beginning of the
        next."""
        buffers = [(buffer, buffer.clone()) for buffer in self._model.buffers()]
        torch.autograd.backward(make_loss())
        for parameter in self._model.parameters():
            parameter.grad = None
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)

    def begin(self) -> None:
        """Do nothing: the forward pass has broadcast the buffers."""

    def finish(self) -> None:
        """Do nothing: the backward pass has waited."""

    def undo(self) -> None:
        """Do nothing: a step is lost only together with its process."""

    def commit(self) -> None:
        """Do nothing: each step counts at once."""

"""DistributedDataParallel as everybody uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn.parallel import DistributedDataParallel


class StockReduction:
    """DistributedDataParallel on the default group. It broadcasts buffers before a forward
    pass, and a lost group is the end of the process."""

    parallel: torch.nn.Module

    def __init__(self, model: torch.nn.Module, device: torch.device, *, replays: bool) -> None:
        """Args: the model, on its device; and whether the layout of the buckets shall be that
        of a job which runs on when this one only goes on."""
        device_ids = [0] if device.type == "cuda" else None
        self._model = model
        self.parallel = DistributedDataParallel(model, device_ids=device_ids)
        self._replays = replays

    @property
    def layout_in_use(self) -> Sequence[Sequence[int]]:
        """Not known."""
        return ()

    @property
    def kept_layout(self) -> Sequence[Sequence[str]]:
        """Not known."""
        return ()

    def needs_warm_up(self, step: int) -> bool:
        """Not before the first step of all."""
        return self._replays and step > 0

    def warm_up(self, make_loss: Callable[[], torch.Tensor]) -> None:
        """One pass; the buckets are laid out anew at the beginning of the next."""
        buffers = [(buffer, buffer.clone()) for buffer in self._model.buffers()]
        torch.autograd.backward(make_loss())
        for parameter in self._model.parameters():
            parameter.grad = None
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)

    def begin(self) -> None:
        """Nothing: it is done in the forward pass."""

    def finish(self) -> None:
        """Nothing: the backward pass has waited."""

    def undo(self) -> None:
        """Nothing: no step is ever lost but with its process."""

    def commit(self) -> None:
        """Nothing."""

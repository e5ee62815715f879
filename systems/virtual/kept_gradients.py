"""The gradients of all virtual workers where one slot runs them all: kept as autograd made them.

Nothing is copied. When the last worker's turn is over, every element is read once from each
worker, scaled, and added up in the order of N processes, in pieces that stay in a core's own cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch

from harness.ring_order import ring_chunks
from systems.elastic.groups import Group
from systems.runtime.reduction import BucketLayout, Places
from systems.virtual.copied_gradients import scale
from systems.virtual.ordered_sum import BLOCK_ELEMENTS


@dataclass(frozen=True, slots=True)
class _Piece:
    """Elements of one parameter that are added up in one order."""

    parameter: int
    start: int
    stop: int
    is_whole: bool
    order: tuple[int, ...]
    total: torch.Tensor
    """Where their sum goes; in the parameter's shape, if they are all of it."""
    scaled: torch.Tensor
    """Memory for one worker's, as ``total``."""


class KeptGradients:
    """All workers' gradients of one step, and their mean."""

    def __init__(
        self, layout: Sequence[BucketLayout], places: Sequence[Places], num_workers: int
    ) -> None:
        """Args: the layout of the buckets, where parameters lie in them, and how many workers."""
        self._num_workers = num_workers
        self._parameters = [parameter for place in places for parameter in place.parameters]
        self._kept: list[list[torch.Tensor]] = []
        self.buckets = [torch.zeros(bucket.numel, dtype=bucket.dtype) for bucket in layout]
        """The mean, flat, by bucket."""
        self.gradients = [
            place.views(bucket) for place, bucket in zip(places, self.buckets, strict=True)
        ]
        """The mean, by bucket and parameter."""
        self._scratch = {
            bucket.dtype: torch.empty(BLOCK_ELEMENTS, dtype=bucket.dtype) for bucket in layout
        }
        self._pieces = list(self._cut(layout, places))

    def _cut(self, layout: Sequence[BucketLayout], places: Sequence[Places]) -> list[_Piece]:
        pieces: list[_Piece] = []
        number = 0
        for bucket, place, flat, views in zip(
            layout, places, self.buckets, self.gradients, strict=True
        ):
            chunks = ring_chunks(bucket.numel, bucket.dtype.itemsize, self._num_workers)
            scratch = self._scratch[bucket.dtype]
            for parameter, offset, view in zip(place.parameters, place.offsets, views, strict=True):
                end = offset + parameter.numel()
                for chunk in chunks:
                    last = min(end, chunk.stop)
                    for start in range(max(offset, chunk.start), last, BLOCK_ELEMENTS):
                        stop = min(start + BLOCK_ELEMENTS, last)
                        is_whole = stop - start == parameter.numel()
                        total = view if is_whole else flat[start:stop]
                        scaled = scratch.as_strided(total.size(), total.stride())
                        cut = start - offset, stop - offset
                        pieces.append(_Piece(number, *cut, is_whole, chunk.order, total, scaled))
                number += 1
        return pieces

    def begin_worker(self, worker: int) -> None:
        """Workers take their turns in order."""
        assert worker == len(self._kept)

    def take(self, parameter: torch.Tensor) -> None:
        """They stay where they are until the end of the turn."""

    def end_worker(self) -> set[int]:
        """A worker's turn is over: take its gradients from the parameters; ids of those that
        have none."""
        kept = []
        missing = {id(parameter) for parameter in self._parameters if parameter.grad is None}
        if not missing:
            for parameter in self._parameters:
                kept.append(cast(torch.Tensor, parameter.grad))
                parameter.grad = None
        self._kept.append(kept)
        return missing

    @torch.no_grad()
    def add_up(self, group: Group | None) -> None:
        """All turns are over: make the mean, and let the workers' gradients go."""
        for piece in self._pieces:
            terms = [self._kept[worker][piece.parameter] for worker in piece.order]
            if not piece.is_whole:
                cut = slice(piece.start, piece.stop)
                terms = [_flat(term)[cut] for term in terms]
            total, scaled = piece.total, piece.scaled
            scale(terms[0], self._num_workers, total)
            for term in terms[1:]:
                scale(term, self._num_workers, scaled)
                total.add_(scaled)
        self._kept.clear()

    def drop(self) -> None:
        """Forget what was kept of a step that does not count."""
        self._kept.clear()


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """In the order of the memory, which a gradient's parameter gives it."""
    return tensor.view(-1) if tensor.is_contiguous() else tensor.as_strided((tensor.numel(),), (1,))

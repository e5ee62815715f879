"""The gradients of all virtual workers where one slot runs them all: added up as they come.

The ring of N processes begins the sum of each chunk of a bucket with another worker, and then goes
down through the others. Where turns go down too, from the last worker to the first, a chunk whose
sum begins with worker f takes the terms of f, f-1, ... 0 at once, and keeps only those of the
workers above f until then: (N - 1) / 2 copies of the gradients in all, beside the sum, where
EasyScale has N (section 3.2). What autograd made is let go at once, as where gradients are
accumulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from harness.ring_order import ring_chunks
from systems.elastic.groups import Group
from systems.runtime.reduction import BucketLayout, Places
from systems.virtual.copied_gradients import scale
from systems.virtual.ordered_sum import BLOCK_ELEMENTS


@dataclass(frozen=True, slots=True)
class _Piece:
    """Elements of one parameter that are added up in one order."""

    start: int
    stop: int
    is_whole: bool
    first: int
    """The worker whose term the sum begins with."""
    total: torch.Tensor
    """Where the sum goes; in the parameter's shape, if it is all of it."""
    scratch: torch.Tensor
    """Memory for one worker's term, as ``total``."""
    kept: tuple[torch.Tensor, ...]
    """Memory for the terms of the workers above ``first``, the last worker's first."""


class RunningSum:
    """The sum of all workers' gradients of one step, which is their mean."""

    def __init__(
        self, layout: Sequence[BucketLayout], places: Sequence[Places], num_workers: int
    ) -> None:
        """Args: the layout of the buckets, where parameters lie in them, and how many workers,
        whose turns go from the last to the first."""
        self._num_workers = num_workers
        self.buckets = [torch.zeros(bucket.numel, dtype=bucket.dtype) for bucket in layout]
        """The mean, flat, by bucket."""
        self.gradients = [
            place.views(bucket) for place, bucket in zip(places, self.buckets, strict=True)
        ]
        """The mean, by bucket and parameter."""
        scratch = {
            bucket.dtype: torch.empty(BLOCK_ELEMENTS, dtype=bucket.dtype) for bucket in layout
        }
        self._pieces: dict[int, list[_Piece]] = {}
        """By parameter."""
        for place, flat, views in zip(places, self.buckets, self.gradients, strict=True):
            self._cut(place, flat, views, scratch[flat.dtype])
        self._worker = 0
        """Whose turn it is."""
        self._missing: set[int] | None = None
        """Parameters whose gradient it has not made; None: more will be added to them."""

    def _cut(
        self,
        place: Places,
        flat: torch.Tensor,
        views: Sequence[torch.Tensor],
        scratch: torch.Tensor,
    ) -> None:
        chunks = ring_chunks(flat.numel(), flat.element_size(), self._num_workers)
        last = self._num_workers - 1
        kept = {
            chunk.order[0]: torch.empty(
                (last - chunk.order[0], chunk.stop - chunk.start), dtype=flat.dtype
            )
            for chunk in chunks
        }
        for parameter, offset, view in zip(place.parameters, place.offsets, views, strict=True):
            pieces = self._pieces[id(parameter)] = []
            end = offset + parameter.numel()
            for chunk in chunks:
                begin, first = max(offset, chunk.start), chunk.order[0]
                for start in range(begin, min(end, chunk.stop), BLOCK_ELEMENTS):
                    stop = min(start + BLOCK_ELEMENTS, end, chunk.stop)
                    is_whole = stop - start == parameter.numel()
                    total = view if is_whole else flat[start:stop]
                    size, stride = total.size(), total.stride()
                    rows = kept[first][:, start - chunk.start : stop - chunk.start]
                    piece = _Piece(
                        start=start - offset,
                        stop=stop - offset,
                        is_whole=is_whole,
                        first=first,
                        total=total,
                        scratch=scratch.as_strided(size, stride),
                        kept=tuple(
                            row.as_strided(size, stride, row.storage_offset()) for row in rows
                        ),
                    )
                    pieces.append(piece)

    def begin_worker(self, worker: int) -> None:
        """Before the last forward pass of a worker's turn."""
        self._worker, self._missing = worker, set(self._pieces)

    @torch.no_grad()
    def take(self, parameter: torch.Tensor) -> None:
        """A parameter's gradient is there; on the thread of the backward pass."""
        if self._missing is None:
            return
        self._missing.remove(id(parameter))
        gradient = parameter.grad
        assert gradient is not None
        parameter.grad = None
        worker, last = self._worker, self._num_workers - 1
        for piece in self._pieces[id(parameter)]:
            term = gradient if piece.is_whole else _flat(gradient)[piece.start : piece.stop]
            if worker > piece.first:
                scale(term, self._num_workers, piece.kept[last - worker])
                continue
            if worker == piece.first:
                scale(term, self._num_workers, piece.total)
            else:
                scale(term, self._num_workers, piece.scratch)
                piece.total.add_(piece.scratch)
            if worker == 0:
                for later in piece.kept:
                    piece.total.add_(later)

    def end_worker(self) -> set[int]:
        """A worker's turn is over; ids of the parameters that had no gradient."""
        left, self._missing = self._missing, None
        return left or set()

    def add_up(self, group: Group | None) -> None:
        """All turns are over, and so is the sum."""

    def drop(self) -> None:
        """The step does not count."""
        self._missing = None


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """In the order of the memory, which a gradient's parameter gives it."""
    return tensor.view(-1) if tensor.is_contiguous() else tensor.as_strided((tensor.numel(),), (1,))

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
from dataclasses import dataclass, field
from typing import cast

import torch

from harness.ring_order import ring_chunks
from systems.elastic.groups import Group
from systems.runtime.reduction import BucketLayout, Places
from systems.virtual.copied_gradients import scale, scale_all
from systems.virtual.ordered_sum import BLOCK_ELEMENTS


@dataclass(frozen=True, slots=True)
class _Piece:
    """Elements of a large parameter that are added up in one order."""

    start: int
    stop: int
    first: int
    """The worker whose term the sum begins with."""
    total: torch.Tensor
    """Where the sum goes."""
    scratch: torch.Tensor
    """Memory for one worker's term."""
    kept: tuple[torch.Tensor, ...]
    """Memory for the terms of the workers above ``first``, the last worker's first."""


@dataclass(slots=True)
class _Small:
    """Parameters of one piece each whose sums begin with the same worker, for one call of each
    operation: an operation on a small tensor takes as long as to call it."""

    parameters: list[torch.Tensor] = field(default_factory=list)
    totals: list[torch.Tensor] = field(default_factory=list)
    kept: list[list[torch.Tensor]] = field(default_factory=list)
    """The terms of the workers above the first, the last worker's first."""


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
        self._pieces: dict[int, list[_Piece]] = {}
        """Of large parameters."""
        self._small: dict[int, _Small] = {}
        """By the worker whose terms their sums begin with."""
        scratch = {
            bucket.dtype: torch.empty(BLOCK_ELEMENTS, dtype=bucket.dtype) for bucket in layout
        }
        for place, flat, views in zip(places, self.buckets, self.gradients, strict=True):
            self._cut(place, flat, views, scratch[flat.dtype])
        self._known = {id(parameter) for place in places for parameter in place.parameters}
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
        kept = {
            chunk.start: torch.empty(
                (self._num_workers - 1 - chunk.order[0], chunk.stop - chunk.start), dtype=flat.dtype
            )
            for chunk in chunks
        }
        for parameter, offset, view in zip(place.parameters, place.offsets, views, strict=True):
            end = offset + parameter.numel()
            pieces = []
            for chunk in chunks:
                first, origin = chunk.order[0], chunk.start
                for start in range(max(offset, origin), min(end, chunk.stop), BLOCK_ELEMENTS):
                    stop = min(start + BLOCK_ELEMENTS, end, chunk.stop)
                    rows = kept[origin][:, start - origin : stop - origin]
                    total, own = flat[start:stop], scratch[: stop - start]
                    pieces.append(
                        _Piece(start - offset, stop - offset, first, total, own, tuple(rows))
                    )
            if len(pieces) > 1:
                self._pieces[id(parameter)] = pieces
                continue
            for piece in pieces:
                small = self._small.setdefault(piece.first, _Small())
                small.parameters.append(parameter)
                small.totals.append(view)

    def begin_worker(self, worker: int) -> None:
        """Before the last forward pass of a worker's turn."""
        last = self._num_workers - 1
        assert worker in (self._worker - 1, last), "turns go down from the last worker"
        self._worker, self._missing = worker, set(self._known)

    @torch.no_grad()
    def take(self, parameter: torch.Tensor) -> None:
        """A parameter's gradient is there; on the thread of the backward pass."""
        if self._missing is None:
            return
        self._missing.remove(id(parameter))
        pieces = self._pieces.get(id(parameter))
        if pieces is None:
            return  # it is small: until the turn is over
        assert parameter.grad is not None
        gradient = _flat(parameter.grad)
        parameter.grad = None
        worker, last = self._worker, self._num_workers - 1
        for piece in pieces:
            term = gradient[piece.start : piece.stop]
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

    @torch.no_grad()
    def end_worker(self) -> set[int]:
        """A worker's turn is over; ids of the parameters that had no gradient."""
        missing, self._missing = self._missing or set(), None
        if not missing:
            for first, small in self._small.items():
                gradients = [cast(torch.Tensor, parameter.grad) for parameter in small.parameters]
                for parameter in small.parameters:
                    parameter.grad = None
                self._add(first, small, gradients)
        return missing

    def _add(self, first: int, small: _Small, gradients: list[torch.Tensor]) -> None:
        """One worker's gradients of small parameters."""
        terms = scale_all(gradients, self._num_workers)
        if self._worker > first:
            small.kept.append(terms)
        elif self._worker == first:
            torch._foreach_copy_(small.totals, terms)
        else:
            torch._foreach_add_(small.totals, terms)
        if self._worker == 0:
            for later in small.kept:
                torch._foreach_add_(small.totals, later)
            small.kept.clear()

    def add_up(self, group: Group | None) -> None:
        """All turns are over, and so is the sum."""

    def drop(self) -> None:
        """The step does not count."""
        self._missing = None
        for small in self._small.values():
            small.kept.clear()


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """In the order of the memory, which a gradient's parameter gives it."""
    return tensor.view(-1) if tensor.is_contiguous() else tensor.as_strided((tensor.numel(),), (1,))

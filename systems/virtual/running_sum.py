"""Running sum of all virtual workers' gradients, for a slot that runs all of them.

The ring of N processes begins the sum of each chunk of a bucket with another worker, and then goes
down through the others. Here turns go down too, from the last worker to the first. A chunk whose
sum begins with worker f then takes the terms of f, f-1, ... 0 at once. Until then, only the terms
of the workers above f are kept. That makes (N - 1) / 2 copies of the gradients in all, in addition
to the sum; EasyScale has N (section 3.2). Autograd's own gradients are freed at once, as in
gradient accumulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch

from harness.machine.gloo_ring import ring_chunks
from systems.runtime.reduction.ordered import BucketLayout, Places
from systems.runtime.wire.groups import Group
from systems.virtual.mapped_memory import mapped_tensors
from systems.virtual.small_parameters import SmallParameters, is_small
from systems.virtual.sum_kernel import CompiledPieces, Piece, TorchPieces, pieces_of


class RunningSum:
    """Sum of all workers' gradients of one step, which is their mean."""

    def __init__(
        self, layout: Sequence[BucketLayout], places: Sequence[Places], num_workers: int
    ) -> None:
        """Lay out the sum.

        Args:
            layout: layout of the buckets.
            places: location of parameters in the buckets.
            num_workers: number of workers, whose turns go from the last to the first.
        """
        self._num_workers = num_workers
        self.buckets = mapped_tensors([((bucket.numel,), bucket.dtype) for bucket in layout])
        """Mean, one flat tensor for each bucket."""
        self.gradients = [
            place.views(bucket) for place, bucket in zip(places, self.buckets, strict=True)
        ]
        """Mean, by bucket and parameter."""
        self._alone: dict[int, CompiledPieces | TorchPieces] = {}
        """Pieces of large parameters, by the parameter's id."""
        small: list[Piece] = []
        late: list[torch.nn.Parameter] = []
        for place, flat in zip(places, self.buckets, strict=True):
            chunks = _Chunks(flat, num_workers)
            for parameter, offset in zip(place.parameters, place.offsets, strict=True):
                if is_small(parameter):
                    small += chunks.pieces(parameter, offset, len(late))
                    late.append(parameter)
                else:
                    pieces = chunks.pieces(parameter, offset, 0)
                    self._alone[id(parameter)] = pieces_of(pieces, num_workers)
        self._small = SmallParameters(late)
        self._together = pieces_of(small, num_workers)
        self._worker = 0
        """Worker whose turn it is."""
        self._missing: set[int] | None = None
        """Large parameters whose gradients the worker has not made; None: more micro-batches
        follow."""

    def begin_worker(self, worker: int) -> None:
        """Begin the last forward pass of a worker's turn."""
        last = self._num_workers - 1
        assert worker in (self._worker - 1, last), "turns go down from the last worker"
        self._worker, self._missing = worker, set(self._alone)
        self._small.begin()

    def take(self, parameter: torch.Tensor) -> None:
        """Take a large parameter's gradient; the backward pass calls this on its thread."""
        if self._missing is None:
            return
        self._missing.remove(id(parameter))
        self._alone[id(parameter)].take([_in_order(parameter)], self._worker)
        # Freed at once, as in gradient accumulation: only the sum and the kept terms stay.
        parameter.grad = None

    def end_worker(self) -> set[int]:
        """End a worker's turn; return the ids of the parameters that had no gradient."""
        missing = (self._missing or set()) | self._small.missing()
        self._missing = None
        if not missing:
            small = self._small.parameters
            self._together.take([_in_order(parameter) for parameter in small], self._worker)
            for parameter in small:
                parameter.grad = None
        return missing

    def add_up(self, group: Group | None) -> None:
        """Do nothing: the sum is complete after the last turn."""

    def drop(self) -> None:
        """Discard the step."""
        self._missing = None


class _Chunks:
    """Chunks of a bucket, and memory for terms that come before they are added."""

    def __init__(self, flat: torch.Tensor, num_workers: int) -> None:
        self._flat = flat
        self._chunks = ring_chunks(flat.numel(), flat.element_size(), num_workers)
        self._kept = mapped_tensors(
            [
                ((num_workers - 1 - chunk.order[0], chunk.stop - chunk.start), flat.dtype)
                for chunk in self._chunks
            ]
        )

    def pieces(self, parameter: torch.nn.Parameter, offset: int, gradient: int) -> list[Piece]:
        """Return the pieces of a parameter at an offset of the bucket."""
        end = offset + parameter.numel()
        found = []
        for chunk, kept in zip(self._chunks, self._kept, strict=True):
            start, stop = max(offset, chunk.start), min(end, chunk.stop)
            if start < stop:
                # A row for each worker above the first of the ring: the turns go down, so that
                # these terms come before the sum has begun.
                rows = kept[:, start - chunk.start : stop - chunk.start]
                total = self._flat[start:stop]
                first = chunk.order[0]
                found.append(Piece(gradient, start - offset, stop - offset, first, total, rows))
        return found


def _in_order(parameter: torch.Tensor) -> torch.Tensor:
    """Return a parameter's gradient in the order of the parameter's memory."""
    gradient = cast(torch.Tensor, parameter.grad)
    if gradient.stride() != parameter.stride():
        # Buckets have the parameter's order of elements, and the last bits depend on the place in a
        # bucket.
        return torch.empty_like(parameter, requires_grad=False).copy_(gradient)
    return gradient

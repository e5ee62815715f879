"""Gradients of a slot's virtual workers, scaled and copied to where other slots read them.

Each worker's gradients are copied as they come, in the layout of DistributedDataParallel's buckets,
into memory that all slots of the host share. On a GPU a separate stream carries them to the host;
that memory is not pinned, so the copies may block.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from systems.runtime.reduction.ordered import BucketLayout, Places
from systems.runtime.wire.groups import Group
from systems.virtual.exchange import Exchange, exchange_over
from systems.virtual.gradient_memory import GradientMemory, buckets_of
from systems.virtual.ordered_sum import OrderedSum, plan_blocks
from systems.virtual.small_parameters import SmallParameters, is_small


class CopiedGradients:
    """Copy of the gradients for each local worker, and the mean of all the job's workers."""

    def __init__(
        self,
        memory: GradientMemory,
        layout: Sequence[BucketLayout],
        places: Sequence[Places],
        num_workers: int,
        local: range,
        device: torch.device,
    ) -> None:
        """Lay out the copies and the mean.

        Args:
            memory: memory for the copies and the mean.
            layout: layout of the buckets.
            places: location of parameters in the buckets.
            num_workers: number of virtual workers of the job.
            local: virtual workers of this slot.
            device: device of the gradients.
        """
        self._memory = memory
        self._layout = layout
        self._num_workers = num_workers
        self._local = local
        memory.resize(len(local))
        copies = [buckets_of(copy.bytes, layout) for copy in memory.copies]
        self._views = [
            {
                id(parameter): gradient
                for place, bucket in zip(places, buckets, strict=True)
                for parameter, gradient in zip(place.parameters, place.views(bucket), strict=True)
            }
            for buckets in copies
        ]
        self.buckets = buckets_of(memory.total, layout)
        """Mean, one flat tensor for each bucket."""
        self.gradients = [p.views(bucket) for p, bucket in zip(places, self.buckets, strict=True)]
        """Mean, by bucket and parameter."""
        self._exchange: Exchange | None = None
        self._sum: OrderedSum | None = None
        if len(local) == num_workers:
            shapes = [(bucket.numel, bucket.dtype.itemsize) for bucket in layout]
            self._sum = OrderedSum(plan_blocks(shapes, num_workers), copies, self.buckets)
        parameters = (parameter for place in places for parameter in place.parameters)
        self._small = SmallParameters(one for one in parameters if is_small(one))
        self._filling: dict[int, torch.Tensor] | None = None
        """Destination of each parameter's gradient of the worker that computes now."""
        self._stream = _new_stream(device)

    def begin_worker(self, worker: int) -> None:
        """Begin the last forward pass of a worker's turn."""
        self._filling = dict(self._views[worker - self._local.start])
        self._small.begin()

    def take(self, parameter: torch.Tensor) -> None:
        """Copy a parameter's gradient; for a large one the backward pass calls this on its
        thread."""
        if self._filling is None:
            return  # more micro-batches will be added to it
        assert parameter.grad is not None
        place = self._filling.pop(id(parameter))
        if self._stream is None:
            scale(parameter.grad, self._num_workers, place)
        else:
            scaled = torch.empty_like(parameter.grad)
            scale(parameter.grad, self._num_workers, scaled)
            # The copy must not begin before the gradient is scaled.
            self._stream.wait_stream(torch.cuda.current_stream(parameter.device))
            with torch.cuda.stream(self._stream):
                place.copy_(scaled, non_blocking=True)
            # Otherwise the allocator could give the memory away while the copy still reads it.
            scaled.record_stream(self._stream)
        parameter.grad = None

    def end_worker(self) -> set[int]:
        """End a worker's turn; return the ids of the parameters that had no gradient."""
        missing = self._small.missing()
        for parameter in self._small.parameters:
            if id(parameter) not in missing:
                self.take(parameter)
        left, self._filling = self._filling, None
        return set(left or ())

    def add_up(self, group: Group | None) -> None:
        """Make the mean with the other slots, after all turns.

        Raises:
            GroupLost: a slot was lost.
        """
        if self._stream is not None:
            # All copies must be in the host's memory before they are added up.
            self._stream.synchronize()
        if self._sum is not None:
            self._sum.run()
            return
        assert group is not None
        if self._exchange is None:
            self._exchange = exchange_over(
                group, self._memory, self._layout, self._num_workers, self._local
            )
        self._exchange.run()

    def drop(self) -> None:
        """Discard the step."""
        self._filling = None


def scale(gradient: torch.Tensor, num_workers: int, out: torch.Tensor) -> None:
    """Scale a worker's gradient for the mean, as DistributedDataParallel does.

    Dividing the gradient, or the sum, would give other bits.
    """
    torch.mul(gradient, 1.0 / num_workers, out=out)


def _new_stream(device: torch.device) -> torch.cuda.Stream | None:
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

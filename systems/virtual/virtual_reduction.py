"""How the gradients of N virtual workers on any number of slots become their mean.

Source: EasyScale (Li et al., SC '23), section 3.3. The bits are those of stock
DistributedDataParallel on N processes: the same buckets, in the first step too, each worker's
gradients multiplied by 1/N, and added up in the order of gloo's ring over N.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import cast

import torch
from torch.nn.parallel import DistributedDataParallel

from systems.elastic.groups import Group, GroupLost, Pending
from systems.runtime.reduction import BucketLayout, OrderedReduction, Places
from systems.runtime.unused_parameters import unused
from systems.virtual.assignment import ranges
from systems.virtual.exchange import Exchange, exchange_over
from systems.virtual.gradient_memory import GradientMemory, buckets_of
from systems.virtual.ordered_sum import OrderedSum, plan_blocks


class VirtualReduction(OrderedReduction):
    """The reduction of a slot that runs some of N virtual workers.

    Where every slot runs one worker, gloo's own all-reduce gives the right sums, overlapped with
    the backward pass; the first step alone is added up by hand, since DistributedDataParallel
    has other buckets in it. Elsewhere every worker's gradients go into a copy of their own,
    scaled; after the last backward pass the slots add up a part each (``Exchange``).

    The virtual workers of a step all begin with the same buffers, and the first one's are
    everybody's afterwards, as DistributedDataParallel does it.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        num_workers: int,
    ) -> None:
        """Args: as for ``OrderedReduction``, and how many virtual workers the job has."""
        super().__init__(model, optimizer, device)
        self._num_workers = num_workers
        self._parallel = cast(DistributedDataParallel, self.parallel)
        self._local = range(num_workers)
        self._num_slots = 1
        self._is_first_step = False
        self._by_hand = False
        self._copies: GradientMemory | None = None
        self._exchange: Exchange | None = None
        self._sum: OrderedSum | None = None
        self._laid_out: tuple[Sequence[Places], Sequence[BucketLayout]] | None = None
        self._views: list[dict[int, torch.Tensor]] = []
        self._sum_buckets: list[torch.Tensor] = []
        self._sum_gradients: list[tuple[torch.Tensor, ...]] = []
        self._filling: dict[int, torch.Tensor] | None = None
        """By parameter: where the gradients of the worker that computes now go."""
        self._stream = _new_stream(device)
        """On which gradients go to the host while the next worker computes. Not tried yet."""
        self._kept = torch.empty_like(self._flat.flat)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    self._on_gradient
                )

    @property
    def group(self) -> Group | None:
        """What it reduces over."""
        return self._group

    @property
    def local(self) -> range:
        """The virtual workers of this slot."""
        return self._local

    @property
    def module(self) -> torch.nn.Module:
        """The model to call in this step."""
        return self._model if self._by_hand else self.parallel

    @property
    def layout_in_use(self) -> Sequence[Sequence[int]]:
        """See ``Reduction``."""
        layout = self._laid_out[1] if self._by_hand and self._laid_out else self.layout
        return [bucket.parameters for bucket in layout]

    @property
    def buckets(self) -> list[torch.Tensor]:
        """The reduced gradients of the last step, flat, by bucket; not copies."""
        return self._sum_buckets if self._by_hand else super().buckets

    def attach(self, group: Group | None) -> None:
        """Between steps: reduce over this group from now on; ``assign`` comes next."""
        super().attach(group)
        self._exchange = None

    def assign(self, counts: Sequence[int]) -> None:
        """Which virtual workers the slots of the group run: so many each, by rank."""
        rank = 0 if self._group is None else self._group.rank
        self._num_slots = len(counts)
        self._local = ranges(counts)[rank]
        self._laid_out = None

    def begin_step(self, step: int) -> None:
        """Before the first virtual worker's forward pass; ``step``: executed so far."""
        is_spread = self._num_slots == self._num_workers
        self._by_hand = not is_spread or (step == 0 and self._num_workers > 1)
        if not self._by_hand:
            self._release()
            return
        layout, places = self.layout, self._places
        if step == 0:
            layout, places = self.first_layout, self.first_places
        if self._laid_out is None or self._laid_out[0] is not places:
            self._lay_out(layout, places)
        self._before_forward(self._model, ())

    def begin_worker(self, worker: int) -> None:
        """Before a virtual worker's forward pass."""
        if not self._by_hand:
            return
        if worker > self._local.start:
            self._flat.gather().copy_(self._boundary)
        self._filling = dict(self._views[worker - self._local.start])

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        """Within, gradients are added to those that are there, and go nowhere yet."""
        filling, self._filling = self._filling, None
        with nullcontext() if self._by_hand else self._parallel.no_sync():
            yield
        self._filling = filling

    def after_forward(self, worker: int) -> None:
        """After a virtual worker's last forward pass of a step."""
        if self._by_hand and worker == 0:
            self._kept.copy_(self._flat.gather())

    def end_worker(self) -> None:
        """After a virtual worker's backward pass.

        Raises:
            UnusedParameterError: a parameter has no gradient.
        """
        left, self._filling = self._filling, None
        if left:
            raise unused([n for n, p in self._model.named_parameters() if id(p) in left])

    def begin(self) -> None:
        """After the last forward pass: the first worker's buffers are on their way."""
        if not self._by_hand:
            super().begin()
            return
        group = self._group
        if group is None or group.size == 1 or not self._travelling.numel():
            return
        if group.rank == 0:
            self._travelling.copy_(self._kept)
        try:
            self._buffers_pending = group.broadcast(self._travelling, 0)
        except GroupLost as error:
            self._lost = error

    def finish(self) -> None:
        """After the last backward pass: gradients are the workers' mean, buffers the first one's.

        Raises:
            GroupLost: the state is that from before the forward pass.
        """
        if not self._by_hand:
            super().finish()
            return
        try:
            self._add_up(self._buffers_pending)
        except GroupLost:
            self.undo()
            raise
        self._buffers_pending = None
        places = self._laid_out[0] if self._laid_out else ()
        for place, views in zip(places, self._sum_gradients, strict=True):
            for parameter, gradient in zip(place.parameters, views, strict=True):
                parameter.grad = gradient.to(self._device)  # on a CPU it is there

    def _add_up(self, buffers: Pending | None) -> None:
        group, kept = self._group, self._kept
        if self._stream is not None:
            self._stream.synchronize()
        if group is not None and group.size > 1:
            if self._lost is not None:
                raise self._lost
            if buffers is not None:
                buffers.wait()
                kept = self._travelling
            self._add_up_with(group)
        else:
            assert self._sum is not None
            self._sum.run()
        self._flat.gather().copy_(kept)

    def _add_up_with(self, group: Group) -> None:
        assert self._copies is not None
        assert self._laid_out is not None
        if self._exchange is None:
            self._exchange = exchange_over(
                group, self._copies, self._laid_out[1], self._num_workers, self._local
            )
        self._exchange.run()

    def undo(self) -> None:
        """Take back what the step did to the buffers, unless it was committed."""
        self._filling = None
        super().undo()
        if self._group is not None and not self._group.is_quiet:
            self._release()  # others may still read it: let them have it

    def _lay_out(self, layout: Sequence[BucketLayout], places: Sequence[Places]) -> None:
        """Have a copy for each local worker, and views of its gradients."""
        if self._copies is None:
            self._copies = GradientMemory((self.first_layout, self.layout))
        memory = self._copies
        memory.resize(len(self._local))
        copies = [buckets_of(copy.bytes, layout) for copy in memory.copies]
        self._views = [
            {
                id(parameter): gradient
                for place, bucket in zip(places, buckets, strict=True)
                for parameter, gradient in zip(place.parameters, place.views(bucket), strict=True)
            }
            for buckets in copies
        ]
        self._sum_buckets = buckets_of(memory.total.bytes, layout)
        self._sum_gradients = [
            place.views(bucket) for place, bucket in zip(places, self._sum_buckets, strict=True)
        ]
        self._laid_out, self._exchange, self._sum = (places, layout), None, None
        if self._num_slots == 1:
            shapes = [(bucket.numel, bucket.dtype.itemsize) for bucket in layout]
            blocks = plan_blocks(shapes, self._num_workers)
            self._sum = OrderedSum(blocks, copies, self._sum_buckets)

    def _release(self) -> None:
        """Have no copies any more."""
        self._copies = self._laid_out = self._exchange = self._sum = None
        self._views, self._sum_buckets, self._sum_gradients = [], [], []

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        """A parameter's gradient is there; on the thread of the backward pass."""
        if self._filling is None:
            return
        assert parameter.grad is not None
        place = self._filling.pop(id(parameter))
        if self._stream is None:
            scale(parameter.grad, self._num_workers, place)
        else:
            scaled = torch.empty_like(parameter.grad)
            scale(parameter.grad, self._num_workers, scaled)
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(self._stream):
                place.copy_(scaled, non_blocking=True)
            scaled.record_stream(self._stream)
        parameter.grad = None


def scale(gradient: torch.Tensor, num_workers: int, out: torch.Tensor) -> None:
    """A worker's part in the mean, as DistributedDataParallel has it: to divide the gradient, or
    the sum, would give other bits."""
    torch.mul(gradient, 1.0 / num_workers, out=out)


def _new_stream(device: torch.device) -> torch.cuda.Stream | None:
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

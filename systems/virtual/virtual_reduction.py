"""Reduction of the gradients of N virtual workers, on any number of slots, to their mean.

Source: EasyScale (Li et al., SC '23), section 3.3. The bits are those of stock
DistributedDataParallel on N processes. The buckets are the same, also in the first step. Each
worker's gradients are multiplied by 1/N, and added in the order of gloo's ring over N.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import cast

import torch
from torch.nn.parallel import DistributedDataParallel

from systems.runtime.reduction.ordered import BucketLayout, OrderedReduction, Places
from systems.runtime.reduction.unused_parameters import unused
from systems.runtime.wire.groups import Group, GroupLost
from systems.runtime.wire.virtual_plan import ranges
from systems.virtual.copied_gradients import CopiedGradients
from systems.virtual.gradient_memory import GradientMemory
from systems.virtual.running_sum import RunningSum
from systems.virtual.small_parameters import is_small


class VirtualReduction(OrderedReduction):
    """Reduction of a slot that runs some of N virtual workers.

    If every slot runs one worker, gloo's own all-reduce gives the right sums, overlapped with the
    backward pass. This class itself sums only the first step, since DistributedDataParallel has
    other buckets in it. A slot that runs all workers adds their gradients as they come
    (``RunningSum``). Otherwise each worker's scaled gradients go into a separate copy, and each
    slot sums a part (``CopiedGradients``).

    All virtual workers begin a step with the same buffers, and have the first one's afterwards, as
    in DistributedDataParallel.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        num_workers: int,
    ) -> None:
        """Wrap the model as ``OrderedReduction`` does. Args: ``num_workers``: number of virtual
        workers of the job."""
        super().__init__(model, optimizer, device)
        self._num_workers = num_workers
        self._parallel = cast(DistributedDataParallel, self.parallel)
        self._local = range(num_workers)
        self._num_slots = 1
        self._rank = 0
        self._by_hand = False
        self._awaits_backward = False
        """True if DistributedDataParallel awaits the backward pass of a forward pass that it has
        made."""
        self._slot_memory: GradientMemory | None = None
        self._gradients: CopiedGradients | RunningSum | None = None
        """Gradients in the layout in use; None if DistributedDataParallel's own are used."""
        self._places_in_use: Sequence[Places] = ()
        self._kept = torch.empty_like(self.buffers.flat)
        for parameter in model.parameters():
            if parameter.requires_grad and not is_small(parameter):
                parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    self._on_gradient
                )

    @property
    def group(self) -> Group | None:
        """Process group of the slots."""
        return self._group

    @property
    def local(self) -> range:
        """Virtual workers of this slot."""
        return self._local

    @property
    def turns(self) -> range:
        """Virtual workers of this slot in the order of their turns.

        The order goes down, as ``RunningSum`` needs.
        """
        return self._local[::-1]

    @property
    def loss_weight(self) -> float:
        """Factor on a worker's loss before its backward pass."""
        return 1.0

    @property
    def module(self) -> torch.nn.Module:
        """Model to call in this step."""
        return self._model if self._by_hand else self.parallel

    @property
    def layout_in_use(self) -> Sequence[Sequence[int]]:
        """See ``Reduction``."""
        is_first = self._by_hand and self._places_in_use is self.first_places
        layout = self.first_layout if is_first else self.layout
        return [bucket.parameters for bucket in layout]

    @property
    def buckets(self) -> list[torch.Tensor]:
        """Reduced gradients of the last step, one flat tensor for each bucket; not copies."""
        return self._gradients.buckets if self._gradients is not None else super().buckets

    def assign(self, counts: Sequence[int]) -> None:
        """Set the number of virtual workers of each slot, by rank; call it after ``attach``."""
        self._rank = 0 if self._group is None else self._group.rank
        self._num_slots = len(counts)
        self._local = ranges(counts)[self._rank]
        self._gradients = None
        # A slot of the group before may still read the old part.
        if self._slot_memory is not None:
            self._slot_memory.renew_part()

    def begin_step(self, step: int) -> None:
        """Begin a step, before the first virtual worker's forward pass; ``step``: executed so
        far."""
        is_spread = self._num_slots == self._num_workers
        self._by_hand = not is_spread or (step == 0 and self._num_workers > 1)
        if not self._by_hand:
            # DistributedDataParallel's own memory is used, so that this one is not needed.
            self._gradients = self._slot_memory = None
            return
        layout, places = self.layout, self._places
        if step == 0:
            layout, places = self.first_layout, self.first_places
        self._use(layout, places)

    def _use(self, layout: Sequence[BucketLayout], places: Sequence[Places]) -> None:
        """Sum this step in this class, in the given layout."""
        if self._gradients is None or self._places_in_use is not places:
            self._places_in_use = places
            self._gradients = None  # free its memory before the new one is allocated
            self._gradients = self._slot_gradients(layout, places)
        # In such a step the model is not called through ``parallel``, whose hook would do this.
        self._before_forward(self._model, ())

    def _slot_gradients(
        self, layout: Sequence[BucketLayout], places: Sequence[Places]
    ) -> CopiedGradients | RunningSum:
        if self._num_slots == 1 and self._device.type == "cpu":
            self._slot_memory = None
            return RunningSum(layout, places, self._num_workers)
        if self._slot_memory is None:
            self._slot_memory = GradientMemory((self.first_layout, self.layout))
        return CopiedGradients(
            self._slot_memory, layout, places, self._num_workers, self._local, self._device
        )

    def begin_worker(self, worker: int) -> None:
        """Begin a virtual worker's first forward pass of a step."""
        # Every worker begins with the buffers of the boundary, as in DistributedDataParallel. The
        # first turn finds them unchanged.
        if self._by_hand and worker != self.turns[0]:
            self.buffers.gather().copy_(self._boundary)

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        """Add gradients to existing ones within the context, without taking them yet."""
        with nullcontext() if self._by_hand else self._parallel.no_sync():
            yield

    def begin_last(self, worker: int) -> None:
        """Begin a virtual worker's last forward pass of a step."""
        if self._by_hand and self._gradients is not None:
            self._gradients.begin_worker(worker)

    def after_forward(self, worker: int) -> None:
        """Keep the first worker's buffers, after a virtual worker's last forward pass of a step."""
        self._awaits_backward = not self._by_hand
        # A copy: the other workers' turns use the same memory for their buffers.
        if self._by_hand and worker == 0:
            self._kept.copy_(self.buffers.gather())

    def end_worker(self, worker: int) -> None:
        """End a virtual worker's last backward pass of a step.

        Raises:
            UnusedParameterError: a parameter has no gradient.
        """
        self._awaits_backward = False
        if self._by_hand and self._gradients is not None:
            missing = self._gradients.end_worker()
            if missing:
                raise unused([n for n, p in self._model.named_parameters() if id(p) in missing])

    def begin(self) -> None:
        """Start the broadcast of the first worker's buffers, after the last forward pass."""
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
        """Make gradients the workers' mean and buffers the first worker's, after the last backward
        pass.

        Raises:
            GroupLost: the process group failed; the state is again that before the forward pass.
        """
        if not self._by_hand or self._gradients is None:
            super().finish()
            return
        # All waits come before any change, as in ``OrderedReduction``.
        kept = self._kept
        try:
            if self._lost is not None:
                raise self._lost
            if self._buffers_pending is not None:
                self._buffers_pending.wait()
                kept = self._travelling
            self._gradients.add_up(self._group)
        except GroupLost:
            self.undo()
            raise
        self.buffers.gather().copy_(kept)
        self._buffers_pending = None
        for place, views in zip(self._places_in_use, self._gradients.gradients, strict=True):
            for parameter, gradient in zip(place.parameters, views, strict=True):
                parameter.grad = gradient.to(self._device)  # on a CPU this copies nothing

    def undo(self) -> None:
        """Restore the buffers to their state before the step, unless it was committed."""
        if self._gradients is not None:
            self._gradients.drop()
        # Before the gradients are dropped, since this pass makes some.
        if self._awaits_backward:
            self._end_backward()
        for parameter in self._model.parameters():
            parameter.grad = None
        super().undo()
        if self._group is not None and not self._group.is_quiet:
            # Other slots may still read it, so it must not be used again.
            self._gradients = self._slot_memory = None

    def _end_backward(self) -> None:
        """Run the backward pass of a step that was abandoned between its two passes.

        DistributedDataParallel would take the next backward pass for the missing one, even in a
        step that this class sums. DistributedDataParallel would send what other slots do not
        expect, and leave a worker's gradients for the next.
        """
        self._awaits_backward = False
        self._lost = GroupLost("the step was given up")  # so nothing is sent
        trained = [one for one in self._model.parameters() if one.requires_grad]
        torch.autograd.backward([one.sum() for one in trained])

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        """Take a parameter's gradient; the backward pass calls this on its thread."""
        if self._by_hand and self._gradients is not None:
            self._gradients.take(parameter)

"""How gradients become their mean where nothing of the reduction outlives a restart (level D0).

Source: EasyScale (Li et al., SC '23), sections 3.3 and 5.1.1: "D0 ignores the states of gradient
synchronization in the checkpoint, and thus these states are lost after restarting". What is lost:
the ranks of virtual workers, so that a slot adds its own workers' gradients up, as one does who
accumulates gradients, and the ring is one of slots; and the layout of the buckets, so that the
first step after every restart has that of a new job. The paper does not say in which order a
slot's own gradients are added; here it is that of its workers.
"""

from __future__ import annotations

from collections.abc import Sequence

from systems.runtime.reduction import BucketLayout, Places
from systems.virtual.copied_gradients import CopiedGradients
from systems.virtual.gradient_memory import GradientMemory
from systems.virtual.running_sum import RunningSum
from systems.virtual.virtual_reduction import VirtualReduction


class SlotReduction(VirtualReduction):
    """The reduction of a slot that is one rank, however many virtual workers it runs. With one
    worker on every slot, and until the first restart, it is that of stock training."""

    _is_new = True
    """Whether no step has been made since the start."""

    @property
    def turns(self) -> range:
        """In the order in which their gradients are added up."""
        return self._local

    @property
    def loss_weight(self) -> float:
        """The slots' sums are divided by the slots, not by the workers."""
        return self._num_slots / self._num_workers

    def begin_step(self, step: int) -> None:
        """See ``VirtualReduction``."""
        self._by_hand = self._num_workers > 1
        if not self._by_hand:
            return
        layout, places = self.layout, self._places
        if self._is_new:
            layout, places = self.first_layout, self.first_places
        self._use(layout, places)

    @property
    def kept_layout(self) -> Sequence[Sequence[str]]:
        """None: it is lost."""
        return ()

    def commit(self) -> None:
        """See ``Reduction``."""
        super().commit()
        self._is_new = False

    def begin_last(self, worker: int) -> None:
        """See ``VirtualReduction``."""
        if self._gradients is not None and worker == self._local[-1]:
            self._gradients.begin_worker(self._rank)

    def end_worker(self, worker: int) -> None:
        """See ``VirtualReduction``."""
        if worker == self._local[-1]:
            super().end_worker(worker)

    def _slot_gradients(
        self, layout: Sequence[BucketLayout], places: Sequence[Places]
    ) -> CopiedGradients | RunningSum:
        if self._num_slots == 1 and self._device.type == "cpu":
            return RunningSum(layout, places, 1)
        if self._slot_memory is None:
            self._slot_memory = GradientMemory((self.first_layout, self.layout))
        alone = range(self._rank, self._rank + 1)
        return CopiedGradients(
            self._slot_memory, layout, places, self._num_slots, alone, self._device
        )

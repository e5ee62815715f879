"""Reduction of gradients whose state does not survive a restart (level D0).

Source: EasyScale (Li et al., SC '23), sections 3.3 and 5.1.1: "D0 ignores the states of gradient
synchronization in the checkpoint, and thus these states are lost after restarting". The ranks of
virtual workers are lost: a slot adds its own workers' gradients, as in gradient accumulation, and
the ring is one of slots. The layout of the buckets is lost too: the first step after every restart
has that of a new job. The paper does not state the order in which a slot adds its own gradients;
here it is that of its workers.
"""

from __future__ import annotations

from collections.abc import Sequence

from systems.runtime.reduction.ordered import BucketLayout, Places
from systems.virtual.copied_gradients import CopiedGradients
from systems.virtual.gradient_memory import GradientMemory
from systems.virtual.running_sum import RunningSum
from systems.virtual.virtual_reduction import VirtualReduction


class SlotReduction(VirtualReduction):
    """Reduction of a slot that is one rank, whatever its number of virtual workers.

    With one worker on every slot, and until the first restart, it equals that of stock training.
    """

    _is_new = True
    """True if no step has been made since the start."""

    @property
    def turns(self) -> range:
        """Local workers in the order in which their gradients are added."""
        return self._local

    @property
    def loss_weight(self) -> float:
        """Factor on a worker's loss: the slots' sums are divided by the slots, not by the
        workers."""
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
        """Empty: the layout is lost at a restart."""
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

"""One step of a slot that runs several virtual workers, one after the other.

Source: EasyScale (Li et al., SC '23), sections 3.1 and 3.3: virtual workers take turns at
mini-batch granularity, after the backward pass, when activations are gone; parameters and
optimizer state are the same for all at that point and are there once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from harness.contracts.marks import Doing
from harness.contracts.training import Batch
from systems.elastic.groups import GroupLost
from systems.runtime.data_order import Plan, epochs_of, share
from systems.runtime.mark import Mark
from systems.runtime.session import Session
from systems.runtime.step_log import SamplesLog
from systems.runtime.trainer import OnLosses, Trainer, on_device
from systems.virtual.assignment import check_counts, split_evenly
from systems.virtual.contexts import Contexts
from systems.virtual.drawn_samples import DrawnSamples
from systems.virtual.virtual_reduction import VirtualReduction


class VirtualTrainer(Trainer):
    """A trainer whose shares of the batch are those of the job's logical workers, however many
    slots there are."""

    def __init__(
        self,
        session: Session,
        mark: Mark,
        num_virtual: int,
        contexts: Contexts,
        accumulation_steps: int = 1,
        drawn: DrawnSamples | None = None,
        *,
        draws_in_turn: bool = False,
    ) -> None:
        """Args:
        session: as for ``Trainer``, like ``mark``.
        mark: the worker's.
        num_virtual: virtual workers of the job.
        contexts: what they have of their own.
        accumulation_steps: micro-batches of each in a step, whose gradients are added up
            before they are reduced.
        drawn: where samples come out of random states of loader processes: what fetches them.
        draws_in_turn: whether they come out of those that a virtual worker trains with.
        """
        super().__init__(session, mark)
        self._drawn = drawn
        self._draws_in_turn = draws_in_turn
        self._accumulation_steps = accumulation_steps
        session.contexts = self._contexts = contexts
        assert isinstance(session.reduction, VirtualReduction)
        self._reduction = session.reduction
        self._num_virtual = self.num_losses = num_virtual
        self._sizes: tuple[int, ...] = ()
        """Samples of a step, by virtual worker."""
        self._losses: dict[int, torch.Tensor] = {}
        """Of the local workers; views of ``_loss_memory``."""
        self._loss_memory: torch.Tensor | None = None
        self._before_backward: Callable[[], None] | None = None
        """To be called in this step."""

    def set_share(
        self,
        rank: int,
        num_workers: int,
        global_batch: int,
        generation: int,
        virtual_workers: Sequence[int] = (),
    ) -> None:
        """Between steps: what this slot runs from now on.

        Args:
            rank: of the slot.
            num_workers: slots.
            global_batch: of all virtual workers.
            generation: of the membership; its samples log is opened.
            virtual_workers: of each slot; empty: as evenly as can be.

        Raises:
            ValueError: some slot or virtual worker would have nothing to do.
            OSError: the log cannot be opened.
        """
        counts = split_evenly(self._num_virtual, num_workers)
        if virtual_workers:
            counts = check_counts(virtual_workers, self._num_virtual, num_workers)
        shares = [share(global_batch, self._num_virtual, v) for v in range(self._num_virtual)]
        self._sizes = tuple(stop - start for start, stop in shares)
        self.rank, self.num_workers, self.global_batch = rank, num_workers, global_batch
        self._reduction.assign(counts)
        self._contexts.assign(self._reduction.local)
        self.close()
        session, local = self.session, self._reduction.local
        self._samples = SamplesLog(session.job_dir, generation, rank, session.data, local)

    def plan(self) -> Plan:
        """What the next step consumes, by virtual worker; pure."""
        return self.session.data.plan(self.session.data_state, self._num_virtual, self.global_batch)

    def batches(self, plan: Plan) -> dict[int, Batch]:
        """The samples of the local virtual workers, fetched together: they share the loaders of
        their slot (EasyScale, section 3.2 of the paper). None if each is to be drawn in turn."""
        session, local = self.session, self._reduction.local
        if self._draws_in_turn:
            return {}
        if self._drawn is not None:
            drawn = self._drawn.batches(plan, local, self.global_batch, session.step)
            return {worker: on_device(batch, session.device) for worker, batch in drawn.items()}
        fetched = session.prefetcher.batch(plan, local, self.global_batch)
        if len(local) == 1:
            return {local.start: on_device(fetched, session.device)}
        found, at = {}, 0
        for worker in local:
            cut = slice(at, at + self._sizes[worker])
            at = cut.stop
            # Memory of its own: a kernel's last bits may depend on where its operands begin.
            part = {name: value[cut].clone() for name, value in fetched.items()}
            found[worker] = on_device(part, session.device)
        return found

    def _drawn_now(self, plan: Plan, worker: int) -> Batch:
        """A virtual worker's samples, drawn from the random states as they are."""
        session, ranges = self.session, plan.parts[worker]
        batch = session.workload.samples(session.data.ids(ranges), epochs_of(ranges))
        return on_device(batch, session.device)

    def dummy_loss(self) -> torch.Tensor:
        """The loss of the next step's first worker here, for passes that are forgotten."""
        plan, first = self.plan(), self._reduction.local.start
        batch = self.batches(plan).get(first) or self._drawn_now(plan, first)
        return self.session.workload.loss(self._reduction.parallel, batch)

    def compute(
        self, on_losses: OnLosses | None = None, before_backward: Callable[[], None] | None = None
    ) -> None:
        """Each local virtual worker's forward and backward pass, then the reduction.

        Args:
            on_losses: called after the last forward pass with the losses of the local workers.
                Waits for the device.
            before_backward: called before the first of their backward passes.

        Raises:
            GroupLost: the state is what it was, and the step can be computed again.
        """
        session, reduction = self.session, self._reduction
        self._before_backward = before_backward
        plan = self.draw()
        reduction.begin_step(session.step)
        recorder = session.recorder
        recorder.begin_step(session.step, is_first=self.rank == 0)
        self._losses.clear()
        batches = self.batches(plan)
        try:
            for worker in reduction.turns:
                self._mark.now(Doing.FORWARD)
                reduction.begin_worker(worker)
                self._contexts.enter(worker, session.step)
                batch = batches.get(worker) or self._drawn_now(plan, worker)
                recorder.begin_worker(worker, batch, plan.parts[worker])
                *before, last = micro_batches(batch, self._accumulation_steps)
                for part, share_of in before:
                    with reduction.accumulating():
                        self._add_gradients(worker, part, share_of)
                reduction.begin_last(worker)
                loss = self._forward(worker, *last)
                recorder.after_forward(self._losses[worker])
                reduction.after_forward(worker)
                if worker == reduction.turns[-1]:
                    reduction.begin()
                    if on_losses is not None:
                        on_losses(self.losses)
                self._backward(loss)
                reduction.end_worker(worker)
                recorder.end_worker()
                self._contexts.leave(worker)
            self._contexts.begin_gather(reduction.group)
            self.finish(plan)
            self._contexts.end_gather()
        except GroupLost:
            self._plan = None
            reduction.undo()
            self._contexts.undo()
            raise

    def _backward(self, loss: torch.Tensor) -> None:
        self._mark.now(Doing.BACKWARD)
        if self._before_backward is not None:
            self._before_backward()
            self._before_backward = None
        torch.autograd.backward(loss)

    def _add_gradients(self, worker: int, part: Batch, share_of: float) -> None:
        self._backward(self._forward(worker, part, share_of))
        self._mark.now(Doing.FORWARD)

    def _forward(self, worker: int, part: Batch, share_of: float) -> torch.Tensor:
        """The loss of a micro-batch, to call ``backward`` on; notes it."""
        loss = self.session.workload.loss(self._reduction.module, part)
        self.session.recorder.before_backward(loss)
        own = loss.detach() if share_of == 1.0 else loss.detach() * share_of
        if worker in self._losses:
            self._losses[worker].add_(own)
        else:
            # Not the loss itself: it lies among the activations of its turn and, kept, would cut
            # up what they leave, so that those of the next turn no longer fit there.
            if self._loss_memory is None:
                self._loss_memory = own.new_empty(self._num_virtual)
            self._losses[worker] = self._loss_memory[worker].copy_(own)
        # The mean over workers is to be the mean over samples, also where shares differ.
        weight = self._sizes[worker] * self._num_virtual / self.global_batch * share_of
        weight *= self._reduction.loss_weight
        return loss if weight == 1.0 else loss * weight

    def undo(self) -> None:
        """See ``Trainer``."""
        super().undo()
        self._contexts.undo()

    def commit(self, *, updates: bool = True) -> None:
        """See ``Trainer``."""
        super().commit(updates=updates)
        self._contexts.commit()

    @property
    def losses(self) -> list[tuple[int, float]]:
        """The losses of the local workers in the step computed last. Waits for the device."""
        return [(worker, float(loss)) for worker, loss in self._losses.items()]

    def mean(self, losses: Sequence[float]) -> float:
        """The step's mean loss over samples, from all workers' losses."""
        total = sum(size * loss for size, loss in zip(self._sizes, losses, strict=True))
        return total / self.global_batch


def micro_batches(batch: Batch, count: int) -> list[tuple[Batch, float]]:
    """At most ``count`` parts of a batch, in order, and what share of its samples each has."""
    if count == 1:
        return [(batch, 1.0)]
    size = len(next(iter(batch.values())))
    shares = [share(size, min(count, size), index) for index in range(min(count, size))]
    return [
        ({name: value[start:stop] for name, value in batch.items()}, (stop - start) / size)
        for start, stop in shares
    ]

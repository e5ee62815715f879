"""One step of a slot that runs several virtual workers, one after the other.

Source: EasyScale (Li et al., SC '23), sections 3.1 and 3.3: virtual workers take turns at
mini-batch granularity, after the backward pass, when activations are freed. Parameters and
optimizer state are the same for all at that point and exist once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from harness.contracts.marks import WorkerPhase
from harness.contracts.workload import Batch
from systems.runtime.wire.data_order import Plan, epochs_of, share
from systems.runtime.wire.groups import GroupLost
from systems.runtime.wire.step_log import SamplesLog
from systems.runtime.wire.virtual_plan import check_counts, split_evenly
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.session import Session
from systems.runtime.worker.trainer import OnLosses, Trainer, on_device
from systems.virtual.contexts import Contexts
from systems.virtual.drawn_samples import DrawnSamples
from systems.virtual.virtual_reduction import VirtualReduction


class VirtualTrainer(Trainer):
    """Trainer whose shares of the batch are those of the job's logical workers, on any number of
    slots."""

    def __init__(
        self,
        session: Session,
        mark: PhaseMark,
        num_virtual: int,
        contexts: Contexts,
        accumulation_steps: int = 1,
        drawn: DrawnSamples | None = None,
        *,
        draws_in_turn: bool = False,
    ) -> None:
        """Prepare a trainer; call ``set_share`` before the first step.

        Args:
            session: session whose reduction is set.
            mark: mark of the worker.
            num_virtual: number of virtual workers of the job.
            contexts: state of the virtual workers.
            accumulation_steps: micro-batches of each worker in a step, whose gradients are added
                before they are reduced.
            drawn: source of the samples, if loader processes draw them at random.
            draws_in_turn: true if samples are drawn from a virtual worker's own random states.
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
        """Losses of the local workers; views of ``_loss_memory``."""
        self._loss_memory: torch.Tensor | None = None
        self._before_backward: Callable[[], None] | None = None
        """Callback that is still to be called in this step."""

    def set_share(
        self,
        rank: int,
        num_workers: int,
        global_batch: int,
        generation: int,
        virtual_workers: Sequence[int] = (),
    ) -> None:
        """Set the workers that this slot runs from now on; call it between steps.

        Args:
            rank: rank of the slot.
            num_workers: number of slots.
            global_batch: batch of all virtual workers.
            generation: generation of the membership; its samples log is opened.
            virtual_workers: number on each slot; empty: as even as possible.

        Raises:
            ValueError: a slot or a virtual worker would get no sample.
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
        """Return what the next step consumes, by virtual worker; pure."""
        return self.session.data.plan(self.session.data_state, self._num_virtual, self.global_batch)

    def batches(self, plan: Plan) -> dict[int, Batch]:
        """Return the samples of the local virtual workers, fetched together.

        They share the loaders of their slot (EasyScale, section 3.2 of the paper). The result is
        empty if each worker draws its samples in its turn.
        """
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
            # Clone: a kernel's last bits may depend on the addresses of its operands.
            part = {name: value[cut].clone() for name, value in fetched.items()}
            found[worker] = on_device(part, session.device)
        return found

    def _drawn_now(self, plan: Plan, worker: int) -> Batch:
        """Return a virtual worker's samples, drawn from the present random states."""
        session, ranges = self.session, plan.parts[worker]
        batch = session.workload.samples(session.data.ids(ranges), epochs_of(ranges))
        return on_device(batch, session.device)

    def dummy_loss(self) -> torch.Tensor:
        """Return the loss of the slot's first worker in the next step, for passes that are
        discarded."""
        plan, first = self.plan(), self._reduction.local.start
        batch = self.batches(plan).get(first) or self._drawn_now(plan, first)
        return self.session.workload.loss(self._reduction.parallel, batch)

    def compute(
        self, on_losses: OnLosses | None = None, before_backward: Callable[[], None] | None = None
    ) -> None:
        """Run each local virtual worker's forward and backward pass, then the reduction.

        Args:
            on_losses: called with the losses of the local workers after the last forward pass,
                which waits for the device.
            before_backward: called before the first backward pass of these workers.

        Raises:
            GroupLost: the process group failed; the state is unchanged, and the step can be
                computed again.
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
                self._mark.now(WorkerPhase.FORWARD)
                reduction.begin_worker(worker)
                # Before the batch: it may be drawn from the worker's own random states.
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
                # Only in the last turn: by then the first worker's buffers are complete on its
                # slot. Their broadcast overlaps with the backward pass.
                if worker == reduction.turns[-1]:
                    reduction.begin()
                    if on_losses is not None:
                        on_losses(self.losses)
                self._backward(loss)
                reduction.end_worker(worker)
                recorder.end_worker()
                self._contexts.leave(worker)
            # Before the wait for the gradients, so that both travel at the same time.
            self._contexts.begin_gather(reduction.group)
            self.finish(plan)
            self._contexts.end_gather()
        except GroupLost:
            # The reduction may have ended well before the contexts were lost; then it is undone,
            # too.
            self._plan = None
            reduction.undo()
            self._contexts.undo()
            raise

    def _backward(self, loss: torch.Tensor) -> None:
        self._mark.now(WorkerPhase.BACKWARD)
        if self._before_backward is not None:
            self._before_backward()
            self._before_backward = None
        torch.autograd.backward(loss)

    def _add_gradients(self, worker: int, part: Batch, share_of: float) -> None:
        self._backward(self._forward(worker, part, share_of))
        self._mark.now(WorkerPhase.FORWARD)

    def _forward(self, worker: int, part: Batch, share_of: float) -> torch.Tensor:
        """Record the loss of a micro-batch, and return what ``backward`` is called on."""
        loss = self.session.workload.loss(self._reduction.module, part)
        self.session.recorder.before_backward(loss)
        own = loss.detach() if share_of == 1.0 else loss.detach() * share_of
        if worker in self._losses:
            self._losses[worker].add_(own)
        else:
            # Copy the loss: it lies among the activations of its turn. Kept there, it would
            # fragment the memory that they leave, so that those of the next turn would not fit.
            if self._loss_memory is None:
                self._loss_memory = own.new_empty(self._num_virtual)
            self._losses[worker] = self._loss_memory[worker].copy_(own)
        # Weight the losses so that the mean over workers is the mean over samples.
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
        """Losses of the local workers in the last computed step. Reading them waits for the
        device."""
        return [(worker, float(loss)) for worker, loss in self._losses.items()]

    def mean(self, losses: Sequence[float]) -> float:
        """Return the step's mean loss over samples, from all workers' losses."""
        # By Python's ``sum``, as docs/reference/bits.md specifies: another order changes the bits.
        total = sum(size * loss for size, loss in zip(self._sizes, losses, strict=True))
        return total / self.global_batch


def micro_batches(batch: Batch, count: int) -> list[tuple[Batch, float]]:
    """Return at most ``count`` parts of a batch, in order, and each part's share of its samples."""
    if count == 1:
        return [(batch, 1.0)]
    size = len(next(iter(batch.values())))
    shares = [share(size, min(count, size), index) for index in range(min(count, size))]
    return [
        ({name: value[start:stop] for name, value in batch.items()}, (stop - start) / size)
        for start, stop in shares
    ]

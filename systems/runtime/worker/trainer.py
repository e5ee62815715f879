"""One step of one worker: the samples consumed, the computation, the update. Independent of a
driver.

A step has two halves. All changes by ``compute`` can be undone; ``commit`` applies the gradients.
Between them a worker may learn that the step does not count.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch

from harness.contracts.marks import WorkerPhase
from harness.contracts.workload import Batch
from systems.runtime.data.step_seed import step_seed
from systems.runtime.tensors.state import parameters_of
from systems.runtime.wire.data_order import Plan, share
from systems.runtime.wire.groups import GroupLost
from systems.runtime.wire.step_log import SamplesLog
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.session import Session

OnLosses: TypeAlias = Callable[[list[tuple[int, float]]], None]
"""Receives losses and their places, see ``Trainer.losses``."""


class Trainer:
    """Executor of a session's steps."""

    num_losses = 1
    """Number of places for losses that all workers of the job fill in a step."""

    def __init__(self, session: Session, mark: PhaseMark) -> None:
        """Prepare a trainer; call ``set_share`` before the first step.

        Args:
            session: session whose reduction is set.
            mark: mark of the worker, which shows the present part of a step.
        """
        self.session = session
        self._mark = mark
        self.global_batch = 0
        self.num_workers = 0
        self.rank = 0
        self._samples: SamplesLog | None = None
        self._loss_share = 1.0
        self.weight = 1.0
        """Factor on the loss."""
        self.computed_at = 0.0
        """Time at which this worker's own gradients were ready, on ``time.monotonic``. On an
        accelerator it is the time at which the last of their computation was submitted, unless
        ``times_device``."""
        self.times_device = False
        """True if the trainer first waits for the device's own work, but not for other workers."""
        self._loss: torch.Tensor | None = None
        self._plan: Plan | None = None

    def set_share(
        self,
        rank: int,
        num_workers: int,
        global_batch: int,
        generation: int,
        virtual_workers: Sequence[int] = (),
    ) -> None:
        """Set this worker's part of every step from now on; call it between steps.

        The call also opens the samples log of this generation and rank. ``virtual_workers`` has no
        meaning here.

        Raises:
            ValueError: a worker would get no sample.
            OSError: the log cannot be opened.
        """
        self.rank, self.num_workers = rank, num_workers
        self._set_batch(global_batch)
        self.close()
        session = self.session
        if session.adapter is not None:
            session.adapter.enter(num_workers)
        self._samples = SamplesLog(session.job_dir, generation, rank, session.data)

    def _set_batch(self, global_batch: int) -> None:
        start, stop = share(global_batch, self.num_workers, self.rank)
        self.global_batch = global_batch
        self._loss_share = (stop - start) / global_batch
        # The reduction takes the plain mean over workers. This factor makes it the mean over
        # samples, also if the shares differ in size.
        self.weight = (stop - start) * self.num_workers / global_batch

    def plan(self) -> Plan:
        """Return what the next step consumes; pure."""
        return self.session.data.plan(self.session.data_state, self.num_workers, self.global_batch)

    def fetch(self, plan: Plan) -> Batch:
        """Return the batch like ``batch``, but leave the samples where they were fetched."""
        session = self.session
        # At the beginning of every step, as docs/reference/bits.md specifies (``per_step``).
        seed_all(step_seed(session.seed, session.step, self.rank), session.device)
        return session.prefetcher.batch(plan, (self.rank,), self.global_batch)

    def batch(self, plan: Plan) -> Batch:
        """Set the random states and fetch this worker's samples for the next step."""
        return on_device(self.fetch(plan), self.session.device)

    def dummy_loss(self) -> torch.Tensor:
        """Return the loss of the next step, for passes whose results are discarded. Nothing is
        logged."""
        batch = self.batch(self.plan())
        return self.session.workload.loss(self.session.reduction.parallel, batch)

    def compute(
        self, on_losses: OnLosses | None = None, before_backward: Callable[[], None] | None = None
    ) -> None:
        """Draw samples, run forward and backward, and reduce the gradients.

        Args:
            on_losses: called with ``losses`` after the forward pass, which waits for the device.
            before_backward: called before the first backward pass, which overwrites the gradients
                of the last step.

        Raises:
            GroupLost: the process group failed; the state is unchanged, and the step can be
                computed again.
        """
        session, recorder = self.session, self.session.recorder
        reduction, plan = session.reduction, self.draw()
        recorder.begin_step(session.step, is_first=self.rank == 0)
        batch = self.batch(plan)
        recorder.begin_worker(self.rank, batch, plan.parts[self.rank])
        loss = session.workload.loss(reduction.parallel, batch)
        recorder.before_backward(loss)
        recorder.after_forward(loss)
        self._loss = loss.detach()
        self._mark.now(WorkerPhase.BACKWARD)
        try:
            # After the forward pass, which changes the buffers. Their broadcast overlaps with the
            # backward pass.
            reduction.begin()
            if on_losses is not None:
                on_losses(self.losses)
            if before_backward is not None:
                before_backward()
            torch.autograd.backward(loss if self.weight == 1.0 else loss * self.weight)
        except GroupLost:
            reduction.undo()
            raise
        recorder.end_worker()
        self.finish(plan)

    def draw(self) -> Plan:
        """Begin ``compute``: determine and log what the step consumes."""
        self._mark.now(WorkerPhase.FORWARD)
        session = self.session
        if session.adapter is not None:
            self._set_batch(session.adapter.batch(session.step, session.data_state.consumed))
        plan = self.plan()
        assert self._samples is not None
        # Before the step is computed, so that no consumed sample is missing from the log if this
        # worker dies. ``generations.jsonl`` says which lines are of lost steps.
        self._samples.add(session.step + 1, plan)
        session.optimizer.zero_grad(set_to_none=True)
        return plan

    def finish(self, plan: Plan) -> None:
        """End ``compute`` after the backward pass: wait for the reduction.

        Raises:
            GroupLost: the process group failed; the state is unchanged, and the step can be
                computed again.
        """
        if self.times_device and self.session.device.type == "cuda":
            torch.cuda.current_stream(self.session.device).synchronize()
        self.computed_at = time.monotonic()
        self._mark.now(WorkerPhase.REDUCE)
        try:
            self.session.reduction.finish()
        except GroupLost:
            self.session.reduction.undo()
            raise
        if self.rank == 0:
            self.session.recorder.reduced(self.session.reduction.layout_in_use)
        self._plan = plan

    @property
    def losses(self) -> list[tuple[int, float]]:
        """This worker's share of the last computed step's loss; the sum over workers is the loss.

        All shares go in place 0. Reading it waits for the device.
        """
        assert self._loss is not None
        return [(0, float(self._loss) * self._loss_share)]

    def mean(self, losses: Sequence[float]) -> float:
        """Return the step's mean loss over samples, from places that all workers have filled."""
        return losses[0]

    def undo(self) -> None:
        """Discard the computed step, as if ``compute`` had never been called."""
        if self._plan is not None:
            self._plan = None
            self.session.reduction.undo()

    @property
    def rate_batch(self) -> float:
        """Batch, in samples, whose learning rate the update of the computed step uses."""
        adapter = self.session.adapter
        return self.global_batch if adapter is None else adapter.rate_batch(self.global_batch)

    def commit(self, *, updates: bool = True) -> None:
        """Apply the gradients of the computed step; it counts from now on.

        Args:
            updates: False: the step counts, but the model does not change. A gradient scaler skips
                an update whose gradients are not finite.
        """
        session, plan = self.session, self._plan
        assert plan is not None
        self._plan = None
        self._mark.now(WorkerPhase.UPDATE)
        before = session.data_state.consumed
        # Before ``observe`` changes it: a donor has logged this value for the same update.
        rate_batch = self.rate_batch
        # Before the update, which may change the gradients in place.
        if session.adapter is not None:
            session.adapter.observe(parameters_of(session.optimizer), self.global_batch)
        if updates:
            session.workload.update(session.optimizer, rate_batch, session.step, before)
        session.reduction.commit()
        if self.rank == 0:
            session.recorder.committed()
        session.step += 1
        session.data_state = plan.after
        self._mark.now(WorkerPhase.BETWEEN)

    def close(self) -> None:
        """Close the samples log. Safe to call twice."""
        if self._samples is not None:
            self._samples.close()
            self._samples = None


def on_device(batch: Batch, device: torch.device) -> Batch:
    """Return a batch on the device that computes it; workloads make it on the CPU."""
    if device.type == "cpu":
        return batch
    return {name: value.to(device) for name, value in batch.items()}


def seed_all(seed: int, device: torch.device) -> None:
    """Seed torch, NumPy and Python; of torch only this device, since seeding all devices is
    slow."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    random.seed(seed)

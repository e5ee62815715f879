"""The training loop of one worker of a generation."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.contracts.marks import WorkerPhase
from systems.restart.join import Joined, join
from systems.restart.order import WorkerOrder
from systems.restart.step_sync import StepSync, Verdict
from systems.runtime.tensors.state import digests
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.messages import (
    Checkpoint,
    CheckpointWritten,
    FirstStep,
    Left,
    MayExit,
    Progress,
    StepsDone,
    StoppedAtCheckpoint,
    finished,
)
from systems.runtime.wire.step_log import LineWriter
from systems.runtime.worker.checkpoint import keep_only
from systems.runtime.worker.evaluations import Evaluations
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.pace import Pacer
from systems.runtime.worker.periodic_checkpoint import PeriodicCheckpoint
from systems.runtime.worker.session import Stopwatch, begin, load, save
from systems.runtime.worker.standby import program_for
from systems.runtime.worker.trainer import Trainer
from systems.virtual.workers import trainer_of

PROGRESS_EVERY_S = 0.2
RECENT_STEPS = 20


def train(
    order: WorkerOrder,
    client: ControlClient,
    ordered_at: float,
    finishing: Callable[[], None] = lambda: None,
) -> None:
    """Train one generation until its target step, or until the driver says stop.

    Everything is reported through ``client``. ``ordered_at`` is the arrival of the order, on
    ``time.monotonic``. ``finishing`` is called in rank 0 as soon as the target is reached: after
    that no other worker can report how the job ended.
    """
    mark = PhaseMark(order.mark)
    mark.first(order.rank == 0)
    mark.leads(order.rank == 0)  # its store serves all workers, and only it reports
    stopwatch = Stopwatch(ordered_at)
    program = program_for(order, stopwatch, takes_state=order.checkpoint is not None)
    joined = join(order, client, program.device)
    session = begin(order, program, joined.reduction(order, program))
    stopwatch.done("group")
    trainer = trainer_of(session, mark, order)
    if order.checkpoint is not None:
        with mark.during(WorkerPhase.COPY):
            load(session, order.checkpoint, verify=order.rank == 0)
    trainer.set_share(
        order.rank, order.num_workers, order.global_batch, order.generation, order.virtual_workers
    )
    stopwatch.done("load")
    if session.reduction.needs_warm_up(session.step):
        session.reduction.warm_up(trainer.dummy_loss)
        session.check_layout()
        stopwatch.done("layout")
    _Loop(order, client, trainer, joined, stopwatch.phases_s, mark, finishing).run()


class _Loop:
    def __init__(
        self,
        order: WorkerOrder,
        client: ControlClient,
        trainer: Trainer,
        joined: Joined,
        phases_s: dict[str, float],
        mark: PhaseMark,
        finishing: Callable[[], None],
    ) -> None:
        session = trainer.session
        self.order = order
        self.client = client
        self.trainer = trainer
        self.session = session
        self.joined = joined
        self.phases_s = phases_s
        self.mark = mark
        self.finishing = finishing
        self.agreement = StepSync(
            order.rank, joined.sum_words, client, order.target_step, trainer.num_losses
        )
        self.is_first = order.rank == 0
        self.pacer = Pacer(order.step_floor_s)
        # If a step is padded, or its loss is on another device, control words are exchanged at its
        # end. A command is then obeyed at once, and nothing waits for the device.
        self.words_at_end = self.pacer.is_on or session.device.type != "cpu"
        job_dir = Path(order.job_dir)
        self.steps = LineWriter(job_dir / "steps.jsonl")
        self.digests = LineWriter(job_dir / "digests.jsonl")
        self.generations = LineWriter(job_dir / "generations.jsonl")
        self.evaluations = Evaluations(session, order.evaluate_epochs)
        self.checkpoints = job_dir / "checkpoints"
        self.periodic = PeriodicCheckpoint(client, lambda: self._save(CheckpointWritten))
        self.recent: deque[float] = deque(maxlen=RECENT_STEPS)
        self.reported_at = 0.0
        self.ended_at = 0.0

    def run(self) -> None:
        """Run all steps, then leave."""
        session = self.session
        if self.is_first:
            self.generations.add(
                {
                    "generation": self.order.generation,
                    "resumed_at": session.step,
                    "world": self.order.num_slots,
                    "global_batch": self.order.global_batch,
                    "device": session.device.type,
                    "threads": self.order.num_threads,
                }
            )
            self.generations.try_flush()
        try:
            target_step = self._train()
        finally:  # record what was executed, whatever ends training
            self._flush()
        self._leave(is_finished=session.is_done(target_step))

    def _train(self) -> int:
        """Run steps until the target or a stop; return the target step."""
        session = self.session
        target_step, stopped = self.order.target_step, False
        first = session.step
        while not (session.is_done(target_step) or stopped):
            started = time.monotonic()
            verdict = self._step()
            late = self.pacer.finish(started) if self.words_at_end else False
            if self.words_at_end:
                verdict = self._exchange()
            self.ended_at = time.monotonic()
            assert verdict is not None
            target_step, stopped = verdict.target_step, verdict.stop
            if self.is_first:
                # Before the report: it may write a checkpoint, which takes time.
                if session.is_done(target_step):
                    self.finishing()
                self._report(started, verdict, late, is_first_step=session.step == first + 1)
        return target_step

    def _step(self) -> Verdict | None:
        """Compute and apply one step; return its verdict, or None if words are exchanged at its
        end."""
        self.trainer.compute(None if self.words_at_end else self.agreement.begin)
        self.trainer.commit()
        return None if self.words_at_end else self.agreement.end()

    def _exchange(self) -> Verdict:
        self.agreement.begin(self.trainer.losses)
        return self.agreement.end()

    def _report(self, started: float, verdict: Verdict, late: bool, is_first_step: bool) -> None:
        """Log the step; report progress, write digests and save a checkpoint when each is due."""
        session, order = self.session, self.order
        entry: dict[str, Any] = {
            "step": session.step,
            "generation": order.generation,
            "world": order.num_slots,
            "global_batch": self.trainer.global_batch,
            "started": started,
            "duration_s": self.ended_at - started,
            "loss": self.trainer.mean(verdict.losses).hex(),
        }
        if len(verdict.losses) > 1:
            entry["losses"] = [loss.hex() for loss in verdict.losses]
        if self.pacer.is_on:
            entry["late"] = late
        self.steps.add(entry)
        self.recent.append(self.ended_at - started)
        if is_first_step:
            phases_s = {**self.phases_s, "first_step": self.ended_at - started}
            self.client.send(
                FirstStep(progress=self._progress(), started=started, phases_s=phases_s)
            )
            self.reported_at = self.ended_at
            self.recent.clear()  # the first step warms up and is no measure of the others
        elif self.ended_at - self.reported_at >= PROGRESS_EVERY_S:
            self.reported_at = self.ended_at
            self.client.offer(StepsDone(progress=self._progress()))
        if order.digest_every and session.step % order.digest_every == 0:
            self.digests.add({"step": session.step, **digests(session.model, session.optimizer)})
        self.evaluations.after_step(self.trainer.global_batch)
        if order.checkpoint_every and session.step % order.checkpoint_every == 0:
            self.periodic.write(session.step)

    def _progress(self) -> Progress:
        step_s = sum(self.recent) / len(self.recent) if self.recent else 0.0
        samples = self.session.data_state.consumed
        return Progress(self.session.step, samples, step_s, self.ended_at)

    def _save(self, message: type[Checkpoint]) -> None:
        """Flush the logs, then write a checkpoint, so that every saved step has its line.

        Args:
            message: class of the message that tells the driver.

        Raises:
            OSError: the disk has no room; the previous checkpoint is unchanged.
        """
        started = time.monotonic()
        self._flush_logs()
        with self.mark.during(WorkerPhase.SAVE):
            manifest = save(self.session, self.checkpoints)
        now = time.monotonic()
        self.client.send(
            message(progress=self._progress(), path=str(manifest), saved=now, save_s=now - started)
        )
        # only after the driver knows the new one: it may need the previous one until then
        keep_only(self.checkpoints, manifest)

    def _flush(self) -> None:
        self.trainer.close()
        self.session.prefetcher.close()
        self._flush_logs()

    def _flush_logs(self) -> None:
        logs = (self.generations, self.steps, self.digests, self.evaluations, self.session.recorder)
        for log in logs:
            log.flush()

    def _leave(self, *, is_finished: bool) -> None:
        """Leave after the last step of all workers: save or evaluate, then wait for permission to
        exit.

        The process groups live until the process ends. If they were destroyed here, the reduction
        would later free its own, holding the interpreter's lock, and wait for gloo's threads. These
        may need that lock to free a tensor (DistributedDataParallel of torch 2.13).
        """
        session = self.session
        self.mark.now(WorkerPhase.LEAVE)
        overruns = self.pacer.num_overruns
        self.client.send(Left(progress=self._progress(), finished=is_finished, overruns=overruns))
        if not self.is_first:
            # A worker that exits at once could break the connection on which another still receives
            # the end of the last all-reduce.
            self.client.expect(MayExit)
        elif is_finished:
            found = digests(session.model, session.optimizer)
            metrics = self.evaluations.now()
            self.client.send(finished(self._progress(), found, metrics))
        else:
            self._save(StoppedAtCheckpoint)

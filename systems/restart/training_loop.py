"""The training loop of one worker of a generation."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.contracts.marks import WorkerPhase
from systems.restart.join import Joined, join
from systems.restart.order import WorkerOrder
from systems.runtime.wire.clock import on_driver_clock
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.messages import (
    FirstStep,
    Left,
    MayExit,
    Progress,
    SetTarget,
    StepsDone,
    Stop,
    StoppedAtCheckpoint,
    finished,
)
from systems.runtime.wire.step_log import LineWriter, generation_entry, step_entry
from systems.runtime.worker.due_records import DueRecords
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.pace import Pacer
from systems.runtime.worker.session import Stopwatch, begin, load
from systems.runtime.worker.standby import program_for
from systems.runtime.worker.step_sync import Commands, StepFacts, StepSync
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
        self.sync = StepSync(trainer.num_losses)
        self.commands = Commands(stop=False, target_step=order.target_step)
        """Latest commands of the driver, to which only the first worker listens."""
        self.is_first = order.rank == 0
        self.pacer = Pacer(order.floor_s(order.num_slots))
        # If a step is padded, or its loss is on another device, control words are exchanged at its
        # end. A command is then obeyed at once, and nothing waits for the device.
        self.words_at_end = self.pacer.is_on or session.device.type != "cpu"
        job_dir = Path(order.job_dir)
        self.steps = LineWriter(job_dir / "steps.jsonl")
        self.generations = LineWriter(job_dir / "generations.jsonl")
        self.records = DueRecords(order, client, session, mark, self._progress, self._flush_steps)
        self.recent: deque[float] = deque(maxlen=RECENT_STEPS)
        self.reported_at = 0.0
        self.ended_at = 0.0

    def run(self) -> None:
        """Run all steps, then leave."""
        session = self.session
        if self.is_first:
            self.generations.add(
                generation_entry(
                    self.order.generation,
                    resumed_at=session.step,
                    num_slots=self.order.num_slots,
                    global_batch=self.order.global_batch,
                    device=session.device.type,
                    num_threads=self.order.num_threads,
                )
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
            facts = self._step()
            late = self.pacer.finish(started) if self.words_at_end else False
            if self.words_at_end:
                facts = self._exchange()
            self.ended_at = time.monotonic()
            assert facts is not None
            target_step, stopped = facts.commands.target_step, facts.commands.stop
            if self.is_first:
                # Before the report: it may write a checkpoint, which takes time.
                if session.is_done(target_step):
                    self.finishing()
                self._report(started, facts, late, is_first_step=session.step == first + 1)
        return target_step

    def _step(self) -> StepFacts | None:
        """Compute and apply one step; return what all workers know of it, or None if words are
        exchanged at its end."""
        self.trainer.compute(None if self.words_at_end else self._begin_words)
        self.trainer.commit()
        return None if self.words_at_end else self.sync.end()

    def _exchange(self) -> StepFacts:
        self._begin_words(self.trainer.losses)
        return self.sync.end()

    def _begin_words(self, losses: Sequence[tuple[int, float]]) -> None:
        """Begin to exchange losses with the other workers.

        The first worker adds the driver's latest commands.
        """
        if self.is_first:
            for message in self.client.arrived():
                if isinstance(message, Stop):
                    self.commands = self.commands._replace(stop=True)
                elif isinstance(message, SetTarget):
                    self.commands = self.commands._replace(target_step=message.target_step)
        commands = self.commands if self.is_first else None
        self.sync.begin(self.joined.peers, losses, commands)

    def _report(self, started: float, facts: StepFacts, late: bool, is_first_step: bool) -> None:
        """Log the step; report progress, write digests and save a checkpoint when each is due."""
        entry = step_entry(
            self.session.step,
            self.order.generation,
            self.order.num_slots,
            self.trainer.global_batch,
            started,
            self.ended_at,
            self.trainer.mean(facts.losses),
            losses=facts.losses,
            late=late if self.pacer.is_on else None,
        )
        self.steps.add(entry)
        self.recent.append(self.ended_at - started)
        if is_first_step:
            phases_s = {**self.phases_s, "first_step": self.ended_at - started}
            self.client.send(
                FirstStep(
                    progress=self._progress(), started=on_driver_clock(started), phases_s=phases_s
                )
            )
            self.reported_at = self.ended_at
            self.recent.clear()  # the first step warms up and is no measure of the others
        elif self.ended_at - self.reported_at >= PROGRESS_EVERY_S:
            self.reported_at = self.ended_at
            self.client.offer(StepsDone(progress=self._progress()))
        self.records.after_step(self.trainer.global_batch)

    def _progress(self) -> Progress:
        step_s = sum(self.recent) / len(self.recent) if self.recent else 0.0
        samples = self.session.data_state.consumed
        return Progress(self.session.step, samples, step_s, on_driver_clock(self.ended_at))

    def _flush(self) -> None:
        self.trainer.close()
        self.session.prefetcher.close()
        self.records.flush()

    def _flush_steps(self) -> None:
        self.generations.flush()
        self.steps.flush()

    def _leave(self, *, is_finished: bool) -> None:
        """Leave after the last step of all workers: save or evaluate, then wait for permission to
        exit.

        The process groups live until the process ends. If they were destroyed here, the reduction
        would later free its own, holding the interpreter's lock, and wait for gloo's threads. These
        may need that lock to free a tensor (DistributedDataParallel of torch 2.13).
        """
        self.mark.now(WorkerPhase.LEAVE)
        overruns = self.pacer.num_overruns
        self.client.send(Left(progress=self._progress(), finished=is_finished, overruns=overruns))
        if not self.is_first:
            # A worker that exits at once could break the connection on which another still receives
            # the end of the last all-reduce.
            self.client.expect(MayExit)
        elif is_finished:
            self.client.send(finished(self._progress(), *self.records.results()))
        else:
            self.records.save(StoppedAtCheckpoint)

"""The training loop of one replica."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

from harness.contracts.marks import WorkerPhase
from systems.runtime.wire.clock import on_driver_clock
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.groups import GroupLost
from systems.runtime.wire.messages import (
    MayExit,
    Progress,
    StepsDone,
    StoppedAtCheckpoint,
    finished,
)
from systems.runtime.worker.due_records import DueRecords
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.pace import Pacer
from systems.runtime.worker.session import Session, Stopwatch, begin, load
from systems.runtime.worker.standby import program_for
from systems.torchft.commands import Commands
from systems.torchft.flat_reduction import FlatReduction
from systems.torchft.interruption import Interruption
from systems.torchft.membership import Membership, Quorum
from systems.torchft.messages import (
    GenerationBegun,
    Go,
    LighthouseAt,
    ReplicaLeft,
    ReplicaReady,
    TargetObeyed,
    TargetReached,
)
from systems.torchft.order import ReplicaOrder
from systems.torchft.replica_log import ReplicaLog
from systems.torchft.replica_trainer import ReplicaTrainer
from systems.torchft.step_words import StepWords, Words

PROGRESS_EVERY_S = 0.2


class QuorumChanged(GroupLost):
    """The forward pass was computed for the shares of an earlier quorum."""


def train(order: ReplicaOrder, client: ControlClient, ordered_at: float) -> None:
    """Train until the job's last step, or until the driver says stop or leave.

    Everything is reported through ``client``. ``ordered_at`` is the arrival of the order, on
    ``time.monotonic``.
    """
    _Replica(order, client, Stopwatch(ordered_at)).run()


class _Replica:
    def __init__(self, order: ReplicaOrder, client: ControlClient, stopwatch: Stopwatch) -> None:
        self.order = order
        self.client = client
        self.mark = PhaseMark(order.mark)
        takes_state = order.checkpoint is not None or not order.founders
        program = program_for(order, stopwatch, takes_state=takes_state)
        lighthouse = client.expect(LighthouseAt).address
        self.membership = Membership(order, lighthouse, self._give, self._take)
        stopwatch.done("group")
        self.reduction = FlatReduction(program.model, self.membership)
        self.session: Session = begin(order, program, self.reduction)
        self.trainer = ReplicaTrainer(self.session, self.mark)
        if order.checkpoint is not None:
            with self.mark.during(WorkerPhase.COPY):
                load(self.session, order.checkpoint, verify=order.number == 0)
            self.membership.resume_at(self.session.step)
        stopwatch.done("load")
        self.commands = Commands(client, order.target_step)
        self.words = StepWords(self.membership)
        self.log = ReplicaLog(order, self.session)
        self.pacer = Pacer(0.0, is_before_update=True)
        self.records = DueRecords(
            order, client, self.session, self.mark, self._progress, self.log.flush
        )
        self.quorum: Quorum | None = None
        """Quorum that the shares belong to; None: the first is yet to come."""
        self.global_batch = order.global_batch
        """Batch of the last step that counts."""
        self.overruns = 0
        self.is_over = bool(order.founders) and self.session.is_done(order.target_step)
        self.is_removed = False
        """True if the other replicas go on without this one."""
        self.interruption = Interruption()
        self.reported = -1
        """Generation that this replica has reported or has seen reported."""
        self.arrived = 0
        """Last target that this replica has reported or has seen reported."""
        self.reported_at = 0.0
        self.phases_s = stopwatch.phases_s

    def run(self) -> None:
        """Run all steps, then leave."""
        self.client.send(ReplicaReady(phases_s=self.phases_s))
        self.client.expect(Go)
        try:
            while not self.is_over:
                self._attempt()
        finally:  # record what was executed, whatever ends training
            self._flush()
        self._leave()

    # One step.

    def _attempt(self) -> None:
        """Compute a step; nothing of it counts if another replica fails meanwhile."""
        self.membership.begin()
        started, words = time.monotonic(), None
        try:
            if self.quorum is None:
                self._settle()
                started = time.monotonic()
            try:
                self._compute()
            except QuorumChanged:
                started = time.monotonic()
                self._compute()
            if self.pacer.is_on:
                trains = self.quorum is not None and self.quorum.rank is not None
                self._send_words(late=trains and self.pacer.finish(started))
            words = self.words.end()
        except GroupLost:
            self.words.drop()
            self.mark.now(WorkerPhase.RECOVER)
        if words is None:
            self.membership.drop_failed()
        counts = self.membership.commit()
        if words is None or not counts:
            self.trainer.undo()
            return
        self._commit(started, words)

    def _compute(self) -> None:
        """Compute gradients and sum them; a replica without state only takes the sums.

        Raises:
            QuorumChanged: the quorum is another than that of the shares, which are set again.
        """
        assert self.quorum is not None
        if self.quorum.rank is not None:
            self.trainer.compute(lambda losses: self._after_forward())
        else:
            self._after_forward()
            with self.mark.during(WorkerPhase.COPY):
                self.reduction.follow()

    def _after_forward(self) -> None:
        """Compare the quorum with the shares; then the words travel during the backward pass."""
        if self._settle():
            raise QuorumChanged("the quorum has changed")
        if not self.pacer.is_on:
            self._send_words(late=False)

    def _settle(self) -> bool:
        """Wait for the quorum and set this replica's share; return whether it has changed."""
        quorum = self.membership.settled()
        batch = self.commands.batch(quorum, self.global_batch)
        if quorum == self.quorum and batch == self.trainer.global_batch:
            return False
        self.mark.now(WorkerPhase.SWITCH)
        self._share(quorum, batch)
        return True

    def _share(self, quorum: Quorum, batch: int) -> None:
        before, self.quorum = self.quorum, quorum
        self.mark.first(quorum.is_first)
        self.mark.leads(quorum.is_first)
        if before is None or before.num_workers != quorum.num_workers:
            self.pacer.begin_anew(self.order.floor_s(quorum.num_workers))
        if quorum.rank is None:
            self.trainer.follow(quorum.num_workers, batch)
            return
        self.trainer.set_share(quorum.rank, quorum.num_workers, batch, quorum.generation)
        if quorum.is_first and (before is None or before.generation != quorum.generation):
            self.log.begin_generation(quorum, batch)

    def _send_words(self, *, late: bool) -> None:
        assert self.quorum is not None
        commands = self.commands
        commands.hear()
        trains = self.quorum.rank is not None
        loss = self.trainer.losses[0][1] if trains else 0.0
        own = Words(commands.stop, commands.target_step, commands.newest, late, loss)
        self.words.begin(own, is_first=self.quorum.is_first)

    # After a step.

    def _commit(self, started: float, words: Words) -> None:
        """Make the update of a step that counts, and obey its words."""
        quorum = self.quorum
        assert quorum is not None
        if quorum.rank is None:
            self.trainer.adopt_plan()
        self.trainer.commit()
        ended = time.monotonic()
        self.global_batch = self.trainer.global_batch
        self.overruns += words.late
        has_target = self.commands.obey(words)
        phases_s = self.interruption.step(quorum, started, ended)
        entry = self.log.entry(quorum, started, ended, self.global_batch, words, self.pacer.is_on)
        if quorum.is_first:
            self.log.add(entry)
            self._report(quorum, phases_s, ended)
            if has_target:
                self.client.send(TargetObeyed(progress=self._progress(), target=words.target))
        self.log.last = entry
        self.reported, self.arrived = quorum.generation, self._arrival(quorum) or self.arrived
        ends = words.stop or self.session.is_done(words.target_step)
        self.is_removed = not ends and self.order.number in self.commands.leaving
        self.is_over = ends or self.is_removed
        if quorum.is_first:
            self.records.after_step(self.global_batch)

    def _report(self, quorum: Quorum, phases_s: dict[str, float], ended: float) -> None:
        """Report the first step of a generation, the arrival at a target, or progress."""
        progress = self._progress()
        if quorum.generation != self.reported:
            self.client.send(
                GenerationBegun(
                    progress=progress,
                    members=quorum.members,
                    is_whole=quorum.is_whole,
                    phases_s=phases_s,
                )
            )
            self.reported_at = ended
        elif ended - self.reported_at >= PROGRESS_EVERY_S:
            self.client.offer(StepsDone(progress=progress))
            self.reported_at = ended
        if (target := self._arrival(quorum)) > self.arrived:
            self.client.send(TargetReached(progress=progress, target=target))

    def _arrival(self, quorum: Quorum) -> int:
        """Return the number of the target that the last step has fulfilled; 0: none."""
        target = self.commands.target
        if target is None or self.global_batch != target.global_batch:
            return 0
        is_there = quorum.is_whole and set(quorum.members) == set(target.members)
        return target.number if is_there else 0

    def _progress(self) -> Progress:
        return Progress(
            step=self.session.step,
            samples=self.session.data_state.consumed,
            step_s=self.interruption.usual_s,
            ended=on_driver_clock(self.interruption.ended),
        )

    # State for other replicas, and from them.

    def _give(self) -> dict[str, Any]:
        """Return the state before this step. torchft calls it on its thread, while this step is
        computed."""
        session = self.session
        return {
            "step": session.step,
            "values": session.values(),
            "model": session.model.state_dict(),
            "optimizer": session.optimizer.state_dict(),
            "global_batch": self.global_batch,
            "overruns": self.overruns,
            "target": self.commands.obeyed,
        }

    def _take(self, state: dict[str, Any]) -> None:
        session = self.session
        session.model.load_state_dict(state["model"])
        # An optimizer keeps the tensors that it is given, and these lie in the received message.
        session.optimizer.load_state_dict(deepcopy(state["optimizer"]))
        session.adopt(state["values"])
        session.step = state["step"]
        self.global_batch = state["global_batch"]
        self.overruns = state["overruns"]
        self.commands.adopt(state["target"])
        if self.quorum is not None:
            self.trainer.follow(self.quorum.num_workers, self.global_batch)

    # The end.

    def _flush(self) -> None:
        self.trainer.close()
        self.session.prefetcher.close()
        self.records.flush()

    def _leave(self) -> None:
        """Leave after the last step: save or evaluate, then wait for permission to exit.

        Other replicas may still receive the end of the last sum over this process's connections.
        """
        self.mark.now(WorkerPhase.LEAVE)
        self.membership.leave()
        session = self.session
        is_finished = session.is_done(self.commands.target_step) and not self.is_removed
        if self.quorum is None:  # there was no step to make
            is_first = self.order.number == min(self.order.founders)
        else:
            is_first = self.quorum.is_first and not self.is_removed
        self.client.send(
            ReplicaLeft(
                progress=self._progress(),
                finished=is_finished,
                is_first=is_first,
                overruns=self.overruns,
            )
        )
        if is_first and is_finished:
            self.client.send(finished(self._progress(), *self.records.results()))
        elif is_first:
            self.records.save(StoppedAtCheckpoint)
        else:
            while not isinstance(self.client.next_message(None), MayExit):
                pass  # commands for replicas that still train

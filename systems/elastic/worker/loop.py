"""Training loop of one elastic worker: its steps, and what it does between two of them.

Source: EDL, sections 4.2 (stop-free scaling) and 4.3 (forced exit). All workers have the same
state at every step boundary, and the membership changes only there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from harness.contracts.marks import WorkerPhase
from systems.elastic.transfer.broadcast import broadcast_state
from systems.elastic.transfer.donor import Donor
from systems.elastic.wire.messages import CaughtUp
from systems.elastic.wire.order import ElasticOrder
from systems.elastic.worker.callbacks import LeaderCallbacks
from systems.elastic.worker.pause import wait_for_switch
from systems.elastic.worker.recover import ENDLESS, WorkerRecovery
from systems.elastic.worker.setup import WorkerSetup
from systems.elastic.worker.shutdown import finish, leave
from systems.elastic.worker.state import Outcome, WorkerState
from systems.runtime.tensors.state import hyper_parameters
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.groups import Group, GroupLost
from systems.runtime.worker.step_sync import Commands


def train(order: ElasticOrder, client: ControlClient, token: str, ordered_at: float) -> None:
    """Train until the job's target step, the driver's stop, or this worker's removal."""
    ElasticLoop(order, client, token, WorkerSetup(order, client, ordered_at)).run()


class ElasticLoop:
    """Training loop of one worker; other threads call only ``tell`` and the ``Handlers``."""

    def __init__(
        self, order: ElasticOrder, client: ControlClient, token: str, bench: WorkerSetup
    ) -> None:
        """Make the loop of one worker.

        Args:
            order: this worker's part in the job.
            client: the connection to the driver.
            token: secret by which the job's processes know each other.
            bench: model, optimizer, data and reduction of this worker.
        """
        self.worker = WorkerState(
            order, client, token, bench, lambda worker: LeaderCallbacks(worker).handlers()
        )
        self._recovering = WorkerRecovery(self.worker)
        self._has_begun = False
        self._is_settled = order.joining
        """True if all workers had the same state when this worker began."""
        self._is_lost = False
        """True if the group was lost, and with the group the step that was being computed."""
        self._commands: Commands | None = None
        """Commands in the last committed step's words, until they are carried out."""
        self._donor: Donor | None = None
        self._started_at = 0.0
        self._ended_at = 0.0
        self._late = False

    # On the training thread.

    def run(self) -> None:
        """Train from this worker's first step to its last, then leave."""
        worker = self.worker
        while self.advance():
            try:
                self.begin_step()
                worker.trainer.compute(self.begin_words, self.before_backward)
                losses = self.end_step()
            except GroupLost as error:
                self.lose(error)
            else:
                self.note(losses)
        assert worker.outcome is not None
        if leave(worker, worker.outcome):
            finish(worker, *worker.bench.report.records.results())

    def advance(self) -> bool:
        """Do all that is due before the next step. Return False if no step follows.

        The worker begins or joins, obeys the commands in the last step's words, and recovers if
        the group was lost.

        Raises:
            GroupLost: the group was lost, and ``lose`` allows no recovery.
        """
        worker = self.worker
        while worker.outcome is None:
            try:
                if self._is_lost:
                    self._is_lost = False
                    worker.outcome = self._recovering.recover()
                elif not self._has_begun:
                    self._has_begun = True
                    self._join() if worker.order.joining else self._found()
                elif self._commands is not None:
                    commands, self._commands = self._commands, None
                    self._obey(commands)
                elif worker.bench.session.is_done(worker.target_step):
                    worker.outcome = Outcome.FINISHED
                else:
                    return True
            except GroupLost as error:
                self.lose(error)
        return False

    def lose(self, error: GroupLost) -> None:
        """Note that the group is lost, and the step at hand with it; ``advance`` then recovers.

        Raises:
            GroupLost: recovery is off (``recovery=none``), or the founders were still agreeing on
                their first state.
        """
        worker = self.worker
        may_recover = self._is_settled and worker.order.recovery != "none"
        if not (may_recover or worker.is_dismissed):
            raise error
        self._is_lost = True

    def _found(self) -> None:
        """Begin with the other founders, from scratch or from a checkpoint."""
        worker = self.worker
        order = worker.order
        worker.bench.load()
        worker.has_state = True
        started = time.monotonic()
        membership = order.membership
        # The driver limits how long a start takes.
        patience_s = max(order.collective_timeout_s, order.recovery_timeout_s)
        worker.regrouping.begin(order.generation, membership, patience_s)
        group = worker.regrouping.take(order.generation)
        worker.bench.phases_s["group"] = time.monotonic() - started
        worker.enter(order.generation, membership, group)
        worker.bench.settle(group, worker.training_state)
        self._is_settled = True

    def _join(self) -> None:
        """Receive the state from a worker that has it, and begin with the other workers."""
        worker = self.worker
        order, phases_s = worker.order, worker.bench.phases_s
        worker.member.prepared(*worker.taking.listen())
        worker.bench.mark.now(WorkerPhase.COPY)
        waiting = time.monotonic()
        topology = worker.taking.topology()
        generation = topology.generation
        started = time.monotonic()
        phases_s["wait"] = started - waiting
        group: Group | None = None
        if order.transfer == "broadcast" and topology.survivors:
            group = worker.meet(generation)
            received = worker.taking.take_broadcast(topology, group)
            worker.meeting = None
        else:
            caught_up = CaughtUp(generation=generation)
            received = worker.taking.take(generation, lambda: worker.member.tell(caught_up))
        phases_s["copy"] = time.monotonic() - started
        worker.bench.adopt(received)
        worker.has_state = True
        worker.target_step = ENDLESS  # no switch follows a last step; words tell the target
        group = group or worker.regrouping.take(generation)
        phases_s["group"] = worker.regrouping.build_s[generation]
        worker.enter(generation, topology.membership, group, change_id=topology.change_id)
        worker.telling.arrived(topology.change_id, None)

    def _obey(self, commands: Commands) -> None:
        """Carry out the commands that all workers read at the end of the last step."""
        worker = self.worker
        worker.target_step = commands.target_step
        if worker.bench.session.is_done(commands.target_step):
            worker.outcome = Outcome.FINISHED
            return
        if commands.stop:
            worker.outcome = Outcome.STOPPED
            return
        switch = commands.switch
        if commands.pause and not switch:
            switch = wait_for_switch(worker, commands.pause - 1)
        if switch and not self._switch(switch):
            worker.outcome = Outcome.LEFT

    # One step: calls around the trainer's work. GroupLost from any: the step is not committed.

    def begin_step(self) -> None:
        """Begin a step, before its samples are drawn."""
        worker = self.worker
        if worker.is_halted:
            raise GroupLost("halted")
        self._donor = worker.giving.present()
        self._started_at = time.monotonic()

    def begin_words(self, losses: Sequence[tuple[int, float]]) -> None:
        """Begin the sum of all workers' words, between the forward and the backward pass."""
        worker = self.worker
        group = worker.group
        assert group is not None
        commands = self._command() if group.rank == 0 else None
        worker.words.begin(group, losses, commands, worker.straggling.last_s)

    def before_backward(self) -> None:
        """Wait until a donor has sent the gradients, which the step's backward pass overwrites."""
        if self._donor is not None:
            self._donor.wait_sent()

    def end_step(self, *, updates: bool = True) -> tuple[float, ...]:
        """Commit the step, after its gradients were reduced. Return its losses.

        Args:
            updates: as for ``Trainer.commit``; the same in all workers.
        """
        worker = self.worker
        donor, session = self._donor, worker.bench.session
        self._late = worker.pacer.finish(self._started_at)
        facts = worker.words.end()
        with worker.giving.watching():
            if donor is None or not updates:
                worker.trainer.commit(updates=updates)
            else:
                with donor.lock:
                    consumed, rate_batch = session.data_state.consumed, worker.trainer.rate_batch
                    buckets = worker.bench.reduction.buckets
                    # A script may set these anywhere between updates; workloads set them in one.
                    groups = hyper_parameters(session.optimizer) if session.carried else None
                    donor.reduced(session.step, rate_batch, consumed, buckets, groups)
                    worker.trainer.commit()
        self._ended_at = time.monotonic()
        self._commands = facts.commands
        computed, is_donor = worker.trainer.computed_at, donor is not None
        worker.straggling.step(self._started_at, computed, facts.times_s, is_donor=is_donor)
        return facts.losses

    @property
    def is_over(self) -> bool:
        """Return whether all workers know by now that no step follows."""
        worker = self.worker
        told = self._commands
        target_step = worker.target_step if told is None else told.target_step
        return worker.outcome is not None or worker.bench.session.is_done(target_step)

    def note(self, losses: Sequence[float]) -> None:
        """Report the committed step, and the switch or recovery before it, if any."""
        worker = self.worker
        started, ended = self._started_at, self._ended_at
        late = self._late if worker.pacer.is_on else None
        worker.num_overruns += bool(late) and worker.rank == 0
        mean = worker.trainer.mean(losses)
        made = worker.generation, worker.membership, worker.trainer.global_batch
        worker.bench.report.step(started, ended, *made, mean, late, losses)
        worker.telling.step(started, ended, worker.generation, worker.membership)

    def _command(self) -> Commands:
        """Return the first worker's commands to all workers for the end of this step."""
        worker = self.worker
        member, step = worker.member, worker.bench.session.step
        announced = member.announced if member.announced > worker.generation else 0
        if announced and not worker.switch_at:
            allowance = worker.order.switch_allowance_s / max(worker.bench.report.step_s, 1e-9)
            worker.switch_at = step + max(1, math.ceil(allowance))
        switch = announced if announced and step + 1 >= worker.switch_at else 0
        return Commands(member.stop, member.target_step, switch, member.pause)

    def _switch(self, generation: int) -> bool:
        """Switch to another generation. Return False if this worker is no member of it.

        The time that this method takes is the pause in EDL's figure 3.
        """
        worker = self.worker
        worker.bench.mark.now(WorkerPhase.SWITCH)
        topology = worker.topologies[generation]
        values = worker.bench.values() if topology.joiners else {}
        donor = worker.giving.donor
        transfer = worker.order.transfer
        phases_s = worker.bench.phases_s
        if donor is not None:
            donor.finish(worker.bench.session.step, values)
        elif topology.donors.get(worker.name) and (
            transfer == "peer" or (transfer == "broadcast" and not topology.survivors)
        ):
            started = time.monotonic()
            takers = topology.donors[worker.name]
            worker.giving.send(takers, generation, worker.bench.session.step, values)
            phases_s["copy"] = time.monotonic() - started
        if worker.name not in topology.membership.members:
            worker.generation, worker.membership = generation, topology.membership
            return False
        if transfer == "broadcast" and topology.joiners and topology.survivors:
            started = time.monotonic()
            group = worker.meet(generation)
            root = topology.membership.members.index(topology.survivors[0])
            broadcast_state(group, worker.training_state, root, worker.bench.session.step, values)
            worker.meeting = None
            phases_s["copy"] = time.monotonic() - started
        else:
            group = worker.regrouping.take(generation)
        phases_s["group"] = worker.regrouping.build_s[generation]
        old_ended = self._ended_at
        worker.enter(generation, topology.membership, group, change_id=topology.change_id)
        phases_s["switch"] = time.monotonic() - old_ended
        worker.telling.arrived(topology.change_id, old_ended)
        return True

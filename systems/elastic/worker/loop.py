"""Training loop of one elastic worker: its steps, and what it does between two of them.

Source: EDL, sections 4.2 (stop-free scaling) and 4.3 (forced exit). All workers have the same
state at every step boundary, and the membership changes only there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from harness.contracts.marks import Doing
from systems.elastic.transfer.broadcast import broadcast_state
from systems.elastic.transfer.donor import Donor
from systems.elastic.transfer.training_state import TrainingState
from systems.elastic.wire.order import ElasticOrder
from systems.elastic.wire.recovery_plan import Membership
from systems.elastic.worker.callbacks import Hearing
from systems.elastic.worker.group_builder import Regrouping, Topology
from systems.elastic.worker.leader_client import Member
from systems.elastic.worker.pause import wait_for_switch
from systems.elastic.worker.receive_state import Taking
from systems.elastic.worker.recover import ENDLESS, Recovering
from systems.elastic.worker.report_switch import Telling
from systems.elastic.worker.send_state import Giving
from systems.elastic.worker.setup import Workbench
from systems.elastic.worker.shutdown import Outcome, finish, leave
from systems.elastic.worker.step_sync import Verdict, Words
from systems.elastic.worker.straggler_times import Straggling
from systems.runtime.tensors.state import hyper_parameters
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.groups import Group, GroupLost
from systems.runtime.worker.pace import Pacer


def train(order: ElasticOrder, client: ControlClient, token: str, ordered_at: float) -> None:
    """Train until the job's target step, the driver's stop, or this worker's removal."""
    ElasticLoop(order, client, token, Workbench(order, client, ordered_at)).run()


class ElasticLoop:
    """Training loop of one worker; other threads call only ``tell`` and the ``Handlers``."""

    def __init__(
        self, order: ElasticOrder, client: ControlClient, token: str, bench: Workbench
    ) -> None:
        """Make the loop of one worker.

        Args:
            order: this worker's part in the job.
            client: the connection to the driver.
            token: secret by which the job's processes know each other.
            bench: model, optimizer, data and reduction of this worker.
        """
        self.order = order
        self.client = client
        self.worker = order.worker
        self.bench = bench
        self.trainer = bench.trainer
        session, carried = bench.session, bench.session.carried
        self.state = TrainingState(
            session.model,
            session.optimizer,
            bench.reduction.buffers,
            dict if carried is None else carried.tensors,
        )
        self.straggling = Straggling(order, client)
        self.trainer.times_device = self.straggling.is_on
        # A script's workers use two more places: ``agree_to_end``, ``ScriptRun.forward``.
        num_places = self.trainer.num_losses + 2 * (carried is not None)
        self.words = Words(num_places, has_times=self.straggling.is_on)
        self.group: Group | None = None
        self.generation = 0
        self.membership = Membership((), order.global_batch)
        self.target_step = order.target_step
        self.topologies: dict[int, Topology] = {}
        self.halt = 0
        """Number of the last recovery that this worker was told to take part in."""
        self.released = 0
        """Number of the last recovery for which the training thread's earlier waits were ended."""
        self.resumed = 0
        """Number of the last recovery that this worker has completed."""
        self.last_change_id: int | None = None
        """Id of the last change that this worker went through."""
        self.meeting: Group | None = None
        """Group over which the state is being broadcast, if any."""
        self.is_dismissed = False
        self.has_state = False
        self.regrouping = Regrouping(
            order.worker,
            lambda: self.member.store,
            order.recovery_timeout_s,
            order.collective_timeout_s,
            bench.prepare,
            lambda generation: self.tell("built", generation),
            self.tell_failed,
            on_devices=order.collectives == "nccl",
        )
        self.giving = Giving(self.state, bench.reduction, token, order, self.tell_failed)
        self.taking = Taking(self.state, bench, token, order, self.tell_failed)
        self.pacer = Pacer(0.0, is_before_update=True)
        self.num_overruns = 0
        """Number of late steps in paced mode, counted while this worker was the first."""
        self.telling = Telling(client, bench, order.worker)
        self.outcome: Outcome | None = None
        """Way in which this worker's training ended; None before that."""
        self._recovering = Recovering(self)
        self._has_begun = False
        self._is_settled = order.joining
        """Whether all workers had the same state when this one began."""
        self._is_lost = False
        """Whether the group was lost, and with it the step that was being computed."""
        self._verdict: Verdict | None = None
        """Commands in the last committed step's words, until they are carried out."""
        self._donor: Donor | None = None
        self._switch_at = 0
        self._started_at = 0.0
        self._ended_at = 0.0
        self._late = False
        self.member = Member(
            order,
            token,
            client,
            Hearing(self).handlers(),
        )

    @property
    def is_halted(self) -> bool:
        """Return whether this worker must stop training in its present group."""
        return self.halt > self.resumed or self.is_dismissed

    @property
    def rank(self) -> int:
        """Rank of this worker in the present generation."""
        return self.membership.members.index(self.worker)

    def tell(self, kind: str, generation: int, **details: Any) -> None:
        """Tell the leader something about a generation."""
        self.member.tell({"kind": kind, "generation": generation, **details})

    def tell_failed(self, generation: int, reason: str) -> None:
        """Tell the leader that a generation cannot begin as it was meant to."""
        self.tell("meeting_failed", generation, reason=reason)

    # On the training thread.

    def run(self) -> None:
        """Train from this worker's first step to its last, then leave."""
        while self.advance():
            try:
                self.begin_step()
                self.trainer.compute(self.begin_words, self.before_backward)
                losses = self.end_step()
            except GroupLost as error:
                self.lose(error)
            else:
                self.note(losses)
        assert self.outcome is not None
        if leave(self, self.outcome):
            finish(self, self.bench.results())

    def advance(self) -> bool:
        """Do all that is due before the next step. Return False if no step follows.

        The worker begins or joins, obeys the commands in the last step's words, and recovers if
        the group was lost.

        Raises:
            GroupLost: the group was lost, and ``lose`` allows no recovery.
        """
        while self.outcome is None:
            try:
                if self._is_lost:
                    self._is_lost = False
                    self.outcome = self._recovering.recover()
                elif not self._has_begun:
                    self._has_begun = True
                    self._join() if self.order.joining else self._found()
                elif self._verdict is not None:
                    verdict, self._verdict = self._verdict, None
                    self._obey(verdict)
                elif self.bench.session.is_done(self.target_step):
                    self.outcome = Outcome.FINISHED
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
        may_recover = self._is_settled and self.order.recovery != "none"
        if not (may_recover or self.is_dismissed):
            raise error
        self._is_lost = True

    def _found(self) -> None:
        """Begin with the other founders, from scratch or from a checkpoint."""
        order = self.order
        self.bench.load()
        self.has_state = True
        started = time.monotonic()
        membership = order.membership
        # The driver limits how long a start takes.
        patience_s = max(order.collective_timeout_s, order.recovery_timeout_s)
        self.regrouping.begin(order.generation, membership, patience_s)
        group = self.regrouping.take(order.generation)
        self.bench.phases_s["group"] = time.monotonic() - started
        self.enter(order.generation, membership, group)
        self.bench.settle(group, self.state)
        self._is_settled = True

    def _join(self) -> None:
        """Receive the state from a worker that has it, and begin with the other workers."""
        order, phases_s = self.order, self.bench.phases_s
        self.member.prepared(*self.taking.listen())
        self.bench.mark.now(Doing.COPY)
        waiting = time.monotonic()
        topology = self.taking.topology()
        generation = topology.generation
        started = time.monotonic()
        phases_s["wait"] = started - waiting
        group: Group | None = None
        if order.transfer == "broadcast" and topology.survivors:
            group = self.meet(generation)
            received = self.taking.take_broadcast(topology, group)
            self.meeting = None
        else:
            received = self.taking.take(generation, lambda: self.tell("caught_up", generation))
        phases_s["copy"] = time.monotonic() - started
        self.bench.adopt(received)
        self.has_state = True
        self.target_step = ENDLESS  # no switch follows a last step; words tell the target
        group = group or self.regrouping.take(generation)
        phases_s["group"] = self.regrouping.build_s[generation]
        self.enter(generation, topology.membership, group, change_id=topology.change_id)
        self.telling.arrived(topology.change_id, None)

    def meet(self, generation: int) -> Group:
        """Take the group of a generation to come, in order to use it before it is entered."""
        self.meeting = group = self.regrouping.take(generation)
        if self.is_halted:
            group.give_up()
        return group

    def enter(
        self,
        generation: int,
        membership: Membership,
        group: Group,
        *,
        change_id: int | None = None,
    ) -> None:
        """Enter a generation: train in its group from the next step on.

        Args:
            generation: its number.
            membership: its members and their global batch.
            group: the group of these members.
            change_id: the change that led to it; after a recovery, the last change that the
                survivors went through.
        """
        old, self.group = self.group, group
        # After the assignment: a later halt finds the group and gives it up (``Hearing``).
        if self.is_halted:
            group.give_up()
            raise GroupLost("halted")
        if change_id is not None:
            self.last_change_id = change_id
        self.generation, self.membership = generation, membership
        self.bench.reduction.attach(group)
        members, plan = membership.members, membership.virtual_workers
        self.trainer.set_share(self.rank, len(members), membership.global_batch, generation, plan)
        floors = self.order.step_floors_s
        self.pacer.begin_anew(floors.get(str(len(membership.members)), 0.0))
        self._switch_at = 0
        self.straggling.enter(membership)
        if self.rank == 0:
            self.bench.report.begin_generation(generation, membership)
        if old is not None and old is not group:
            old.drop()
        self.member.switched(generation, membership, self.last_change_id)
        self.bench.mark.first(self.rank == 0)
        self.bench.mark.now(Doing.BETWEEN)

    def _obey(self, verdict: Verdict) -> None:
        """Carry out the commands that all workers read at the end of the last step."""
        self.target_step = verdict.target_step
        if self.bench.session.is_done(verdict.target_step):
            self.outcome = Outcome.FINISHED
            return
        if verdict.stop:
            self.outcome = Outcome.STOPPED
            return
        switch = verdict.switch
        if verdict.pause and not switch:
            switch = wait_for_switch(self, verdict.pause - 1)
        if switch and not self._switch(switch):
            self.outcome = Outcome.LEFT

    # One step: calls around the trainer's work. GroupLost from any: the step is not committed.

    def begin_step(self) -> None:
        """Begin a step, before its samples are drawn."""
        if self.is_halted:
            raise GroupLost("halted")
        self._donor = self.giving.present()
        self._started_at = time.monotonic()

    def begin_words(self, losses: Sequence[tuple[int, float]]) -> None:
        """Begin the sum of all workers' words, between the forward and the backward pass."""
        group = self.group
        assert group is not None
        command = self._command() if group.rank == 0 else None
        self.words.begin(group, losses, command, self.straggling.last_s)

    def before_backward(self) -> None:
        """Wait until a donor has sent the gradients, which the step's backward pass overwrites."""
        if self._donor is not None:
            self._donor.wait_sent()

    def end_step(self, *, updates: bool = True) -> tuple[float, ...]:
        """Commit the step, after its gradients were reduced. Return its losses.

        Args:
            updates: as for ``Trainer.commit``; the same in all workers.
        """
        donor, session = self._donor, self.bench.session
        self._late = self.pacer.finish(self._started_at)
        verdict = self.words.end()
        with self.giving.watching():
            if donor is None or not updates:
                self.trainer.commit(updates=updates)
            else:
                with donor.lock:
                    consumed, rate_batch = session.data_state.consumed, self.trainer.rate_batch
                    buckets = self.bench.reduction.buckets
                    # A script may set these anywhere between updates; workloads set them in one.
                    groups = hyper_parameters(session.optimizer) if session.carried else None
                    donor.reduced(session.step, rate_batch, consumed, buckets, groups)
                    self.trainer.commit()
        self._ended_at = time.monotonic()
        self._verdict = verdict
        computed, is_donor = self.trainer.computed_at, donor is not None
        self.straggling.step(self._started_at, computed, verdict.times_s, is_donor=is_donor)
        return verdict.losses

    @property
    def is_over(self) -> bool:
        """Return whether all workers know by now that no step follows."""
        verdict = self._verdict
        target_step = self.target_step if verdict is None else verdict.target_step
        return self.outcome is not None or self.bench.session.is_done(target_step)

    def note(self, losses: Sequence[float]) -> None:
        """Report the committed step, and the switch or recovery before it, if any."""
        started, ended = self._started_at, self._ended_at
        late = self._late if self.pacer.is_on else None
        self.num_overruns += bool(late) and self.rank == 0
        mean = self.trainer.mean(losses)
        made = self.generation, self.membership, self.trainer.global_batch
        self.bench.report.step(started, ended, *made, mean, late, losses)
        self.telling.step(started, ended, self.generation, self.membership)

    def _command(self) -> Verdict:
        """Return the first worker's commands to all workers for the end of this step."""
        member, step = self.member, self.bench.session.step
        announced = member.announced if member.announced > self.generation else 0
        if announced and not self._switch_at:
            allowance = self.order.switch_allowance_s / max(self.bench.report.step_s, 1e-9)
            self._switch_at = step + max(1, math.ceil(allowance))
        switch = announced if announced and step + 1 >= self._switch_at else 0
        return Verdict(member.stop, member.target_step, switch, member.pause)

    def _switch(self, generation: int) -> bool:
        """Switch to another generation. Return False if this worker is no member of it.

        The time that this method takes is the pause in EDL's figure 3.
        """
        self.bench.mark.now(Doing.SWITCH)
        topology = self.topologies[generation]
        values = self.bench.values() if topology.joiners else {}
        donor = self.giving.donor
        transfer = self.order.transfer
        phases_s = self.bench.phases_s
        if donor is not None:
            donor.finish(self.bench.session.step, values)
        elif topology.donors.get(self.worker) and (
            transfer == "peer" or (transfer == "broadcast" and not topology.survivors)
        ):
            started = time.monotonic()
            takers = topology.donors[self.worker]
            self.giving.send(takers, generation, self.bench.session.step, values)
            phases_s["copy"] = time.monotonic() - started
        if self.worker not in topology.membership.members:
            self.generation, self.membership = generation, topology.membership
            return False
        if transfer == "broadcast" and topology.joiners and topology.survivors:
            started = time.monotonic()
            group = self.meet(generation)
            root = topology.membership.members.index(topology.survivors[0])
            broadcast_state(group, self.state, root, self.bench.session.step, values)
            self.meeting = None
            phases_s["copy"] = time.monotonic() - started
        else:
            group = self.regrouping.take(generation)
        phases_s["group"] = self.regrouping.build_s[generation]
        old_ended = self._ended_at
        self.enter(generation, topology.membership, group, change_id=topology.change_id)
        phases_s["switch"] = time.monotonic() - old_ended
        self.telling.arrived(topology.change_id, old_ended)
        return True

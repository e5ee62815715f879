"""State of one elastic worker, which its training loop and the loop's helpers share."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from harness.contracts.marks import WorkerPhase
from systems.elastic.transfer.training_state import TrainingState
from systems.elastic.wire.messages import GroupBuilt, MeetingFailed, Topology
from systems.elastic.wire.order import ElasticOrder
from systems.elastic.wire.recovery_plan import Membership
from systems.elastic.worker.group_builder import GroupBuilder
from systems.elastic.worker.leader_client import Handlers, LeaderClient
from systems.elastic.worker.receive_state import StateReceiver
from systems.elastic.worker.report_switch import SwitchReporter
from systems.elastic.worker.send_state import StateSender
from systems.elastic.worker.setup import WorkerSetup
from systems.elastic.worker.straggler_times import StragglerTimes
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.groups import Group, GroupLost
from systems.runtime.wire.protocol import sendable
from systems.runtime.worker.pace import Pacer
from systems.runtime.worker.step_sync import StepSync


class Outcome(StrEnum):
    """Way in which a worker's training ends."""

    FINISHED = "finished"
    STOPPED = "stopped"
    LEFT = "left"


ENDS = (Outcome.FINISHED, Outcome.STOPPED)
"""Outcomes that end the whole job."""


class WorkerState:
    """Parts and progress of one worker.

    The membership's thread writes ``topologies``, ``halt`` and ``released`` (``callbacks.py``).
    Either thread may set ``is_dismissed``. The training thread alone writes everything else.
    """

    def __init__(
        self,
        order: ElasticOrder,
        client: ControlClient,
        token: str,
        bench: WorkerSetup,
        handlers: Callable[[WorkerState], Handlers],
    ) -> None:
        """Make the state of a worker that has not begun.

        Args:
            order: this worker's part in the job.
            client: connection to the driver.
            token: secret by which the job's processes know each other.
            bench: model, optimizer, data and reduction of this worker.
            handlers: makes the callbacks for leader messages.
        """
        self.order = order
        self.client = client
        self.name = order.worker
        self.bench = bench
        self.trainer = bench.trainer
        session, carried = bench.session, bench.session.carried
        self.training_state = TrainingState(
            session.model,
            session.optimizer,
            bench.reduction.buffers,
            dict if carried is None else carried.tensors,
        )
        self.straggling = StragglerTimes(order, client)
        self.trainer.times_device = self.straggling.is_on
        # A script's workers use two more places: ``agree_to_end``, ``ScriptRun.forward``.
        num_places = self.trainer.num_losses + 2 * (carried is not None)
        self.words = StepSync(num_places, switches=True, has_times=self.straggling.is_on)
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
        self.switch_at = 0
        """Step after which the first worker has all switch to the announced generation; 0: none."""
        self.regrouping = GroupBuilder(
            order.worker,
            lambda: self.member.store,
            order.recovery_timeout_s,
            order.collective_timeout_s,
            bench.prepare,
            lambda generation: self.member.tell(GroupBuilt(generation=generation)),
            self.tell_failed,
            on_devices=order.collectives == "nccl",
        )
        self.giving = StateSender(
            self.training_state, bench.reduction, token, order, self.tell_failed
        )
        self.taking = StateReceiver(self.training_state, bench, token, order, self.tell_failed)
        self.pacer = Pacer(0.0, is_before_update=True)
        self.num_overruns = 0
        """Number of late steps in paced mode, counted while this worker was the first."""
        self.telling = SwitchReporter(client, bench, order.worker)
        self.outcome: Outcome | None = None
        """Way in which this worker's training ended; None before that."""
        # Last: the member's thread may call the handlers at once, and they use all of the above.
        self.member = LeaderClient(order, token, client, handlers(self))

    @property
    def is_halted(self) -> bool:
        """Return whether this worker must stop training in its present group."""
        return self.halt > self.resumed or self.is_dismissed

    @property
    def rank(self) -> int:
        """Rank of this worker in the present generation."""
        return self.membership.members.index(self.name)

    def tell_failed(self, generation: int, reason: str) -> None:
        """Tell the leader that a generation cannot begin as it was meant to."""
        self.member.tell(MeetingFailed(generation=generation, reason=sendable(reason)))

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
        # After the assignment: a later halt finds the group and gives it up (``LeaderCallbacks``).
        if self.is_halted:
            group.give_up()
            raise GroupLost("halted")
        if change_id is not None:
            self.last_change_id = change_id
        self.generation, self.membership = generation, membership
        self.bench.reduction.attach(group)
        members, plan = membership.members, membership.virtual_workers
        self.trainer.set_share(self.rank, len(members), membership.global_batch, generation, plan)
        self.pacer.begin_anew(self.order.floor_s(len(members)))
        self.switch_at = 0
        self.straggling.enter(membership)
        if self.rank == 0:
            self.bench.report.begin_generation(generation, membership)
        if old is not None and old is not group:
            old.drop()
        self.member.switched(generation, membership, self.last_change_id)
        self.bench.mark.first(self.rank == 0)
        self.bench.mark.now(WorkerPhase.BETWEEN)

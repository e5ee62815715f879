"""A survivor's recovery, from the loss of its group to the next group.

Source: EDL, section 4.3. The leader's decisions are in ``wire.recovery_plan``.
"""

from __future__ import annotations

import math
import queue
import time
from contextlib import nullcontext

from harness.contracts.marks import WorkerPhase
from systems.elastic.transfer.channel import TransferError
from systems.elastic.transfer.kept_state import kept
from systems.elastic.wire.messages import Resume
from systems.elastic.worker.shutdown import give, tell_halted
from systems.elastic.worker.state import Outcome, WorkerState
from systems.runtime.wire.groups import GroupLost
from systems.runtime.wire.messages import MayExit
from systems.runtime.wire.protocol import ControlError

QUIET_TIMEOUT_S = 5.0
ENDLESS = 2**62
MEETINGS = 3
"""Number of times that the timeout for building a group fits into the recovery's timeout."""


class WorkerRecovery:
    """Recovery of one worker, on its training thread."""

    def __init__(self, worker: WorkerState) -> None:
        self._worker = worker
        self._attempted = 0

    def recover(self) -> Outcome | None:
        """Go on training with the other survivors.

        Returns:
            None if the worker trains on; else the outcome with which its training has ended.

        Raises:
            ControlError: no message said in time how to go on.
        """
        worker = self._worker
        worker.bench.mark.now(WorkerPhase.RECOVER)
        worker.trainer.undo()
        worker.words = (
            worker.words.fresh()
        )  # an abandoned all-reduce may still write to the old ones
        if worker.group is not None:
            worker.group.give_up()
        if worker.meeting is not None:
            worker.meeting.give_up()
            # A broadcast of the state may still be writing to it.
            worker.meeting.wait_until_quiet(QUIET_TIMEOUT_S)
            worker.meeting = None
        worker.giving.cancel()
        started = time.monotonic()
        worker.bench.phases_s.clear()
        before = worker.membership
        while True:
            try:
                message = self._attempt()
                break
            except (GroupLost, TransferError):
                continue  # another worker died meanwhile, or the leader was told of the failure
        if message is None:
            return Outcome.LEFT
        if message.plan.outcome:
            return Outcome(message.plan.outcome)
        worker.bench.phases_s["recover"] = time.monotonic() - started
        members = worker.membership.members
        lost = [name for name in before.members if name not in members]
        worker.telling.recovered(lost, worker.last_change_id)
        return None

    def _attempt(self) -> Resume | None:
        """Make one attempt, from the leader's halt to the new group.

        Returns:
            The leader's ``Resume`` message; its outcome is set if the job is over. None if this
            worker does not go on.

        Raises:
            GroupLost: another recovery began before this one was over.
            TransferError: the state did not come.
        """
        worker = self._worker
        number = self._next_halt()
        if number is None:
            return None
        self._attempted = number
        tell_halted(worker, number)
        message = self._resume(number)
        if message is None:
            return None
        membership = message.plan.membership
        if message.plan.outcome:
            worker.generation, worker.membership = number, membership
            return message
        is_member = worker.name in membership.members
        if is_member:
            timeout_s = worker.order.recovery_timeout_s / MEETINGS
            worker.regrouping.begin(number, membership, timeout_s)
            if worker.halt != number:  # a later halt came before ``begin`` and cancelled nothing
                worker.regrouping.cancel_all()
                raise GroupLost("another recovery has begun")
        self._settle_state(message)
        if not is_member:
            return None
        group = worker.regrouping.take(number)
        worker.resumed = number
        worker.target_step = ENDLESS  # a job past its last step has an outcome
        worker.enter(number, membership, group, change_id=message.plan.change_id)
        return message

    def _settle_state(self, message: Resume) -> None:
        """Bring this worker to the state from which all survivors go on."""
        worker, plan = self._worker, message.plan
        if plan.from_checkpoint:
            worker.bench.roll_back()
        elif worker.name in plan.behind:
            with kept(worker.training_state) if worker.has_state else nullcontext():
                received = worker.taking.take(message.generation)
            worker.bench.adopt(received)
        elif worker.name == plan.source:
            give(worker, message)
        worker.has_state = True

    def _next_halt(self) -> int | None:
        """Wait for a recovery that was not tried yet, and return its number.

        A worker that died or hangs is noticed within ``hang_timeout_s``. If no halt came by then,
        the other workers may not know that the group is lost, and the leader is told.

        Returns:
            The number; None if this worker is dismissed.

        Raises:
            ControlError: no halt came within ``recovery_timeout_s``.
        """
        worker = self._worker
        now = time.monotonic()
        until = now + worker.order.recovery_timeout_s
        tell_at = now + worker.order.hang_timeout_s
        # Not ``halt``: the waits of the new attempt must begin after the old ones were ended.
        while worker.released <= self._attempted:
            if worker.is_dismissed:
                return None
            wait_s = min(tell_at, until) - time.monotonic()
            try:
                message = worker.member.directives.get(timeout=max(0.0, wait_s))
            except queue.Empty:
                if tell_at < until:
                    tell_at = math.inf
                    if worker.generation:  # else it was only joining, and no group misses it
                        worker.tell_failed(worker.generation, "its group was lost")
                    continue
                raise ControlError(
                    "the group was lost, and no message said how to go on for"
                    f" {worker.order.recovery_timeout_s} s (recovery_timeout_s)"
                ) from None
            if isinstance(message, MayExit):
                worker.is_dismissed = True
        return None if worker.is_dismissed else worker.released

    def _resume(self, number: int) -> Resume | None:
        """Return the leader's ``Resume`` message of this recovery; None if dismissed.

        Raises:
            GroupLost: another recovery has begun.
            ControlError: nothing came in time.
        """
        worker = self._worker
        until = time.monotonic() + worker.order.recovery_timeout_s
        while True:
            if worker.is_dismissed:
                return None
            if worker.halt != number:
                raise GroupLost("another recovery has begun")
            try:
                message = worker.member.directives.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise ControlError(
                    "the leader has not said 'resume' within"
                    f" {worker.order.recovery_timeout_s} s (recovery_timeout_s)"
                ) from None
            if isinstance(message, MayExit):
                worker.is_dismissed = True
            elif isinstance(message, Resume) and message.generation == number:
                return message

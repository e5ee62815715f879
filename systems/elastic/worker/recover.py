"""A survivor's recovery, from the loss of its group to the next group.

Source: EDL, section 4.3. The leader's decisions are in ``recovery``.
"""

from __future__ import annotations

import math
import queue
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from harness.contracts.marks import Doing
from systems.elastic.transfer.channel import TransferError
from systems.elastic.transfer.kept_state import kept
from systems.elastic.wire.recovery_plan import Membership
from systems.elastic.worker.shutdown import Outcome, give, tell_halted
from systems.runtime.wire.control import ControlError, Message
from systems.runtime.wire.groups import GroupLost

QUIET_TIMEOUT_S = 5.0
ENDLESS = 2**62
MEETINGS = 3
"""Number of times that the timeout for building a group fits into the recovery's timeout."""

if TYPE_CHECKING:
    from systems.elastic.worker.loop import ElasticLoop


class Recovering:
    """Recovery of one worker, on its training thread."""

    def __init__(self, loop: ElasticLoop) -> None:
        self._loop = loop
        self._attempted = 0

    def recover(self) -> Outcome | None:
        """Go on training with the other survivors.

        Returns:
            None if the worker trains on; else the outcome with which its training has ended.

        Raises:
            ControlError: no message said in time how to go on.
        """
        loop = self._loop
        loop.bench.mark.now(Doing.RECOVER)
        loop.trainer.undo()
        loop.words = loop.words.fresh()  # an abandoned all-reduce may still write to the old ones
        if loop.group is not None:
            loop.group.give_up()
        if loop.meeting is not None:
            loop.meeting.give_up()
            # A broadcast of the state may still be writing to it.
            loop.meeting.wait_until_quiet(QUIET_TIMEOUT_S)
            loop.meeting = None
        loop.giving.cancel()
        started = time.monotonic()
        loop.bench.phases_s.clear()
        before = loop.membership
        while True:
            try:
                message = self._attempt()
                break
            except (GroupLost, TransferError):
                continue  # another worker died meanwhile, or the leader was told of the failure
        if message is None:
            return Outcome.LEFT
        if message["outcome"]:
            return Outcome(message["outcome"])
        loop.bench.phases_s["recover"] = time.monotonic() - started
        lost = [worker for worker in before.members if worker not in loop.membership.members]
        loop.telling.recovered(lost, loop.last_change_id)
        return None

    def _attempt(self) -> Message | None:
        """Make one attempt, from the leader's halt to the new group.

        Returns:
            The leader's ``resume`` message; its outcome is set if the job is over. None if this
            worker does not go on.

        Raises:
            GroupLost: another recovery began before this one was over.
            TransferError: the state did not come.
        """
        loop = self._loop
        number = self._next_halt()
        if number is None:
            return None
        self._attempted = number
        tell_halted(loop, number)
        message = self._directive("resume", number)
        if message is None:
            return None
        membership = Membership.from_message(message)
        if message["outcome"]:
            loop.generation, loop.membership = number, membership
            return message
        is_member = loop.worker in membership.members
        if is_member:
            timeout_s = loop.order.recovery_timeout_s / MEETINGS
            loop.regrouping.begin(number, membership, timeout_s)
            if loop.halt != number:  # a later halt came before ``begin`` and cancelled nothing
                loop.regrouping.cancel_all()
                raise GroupLost("another recovery has begun")
        self._settle_state(message)
        if not is_member:
            return None
        group = loop.regrouping.take(number)
        loop.resumed = number
        loop.target_step = ENDLESS  # a job past its last step has an outcome
        loop.enter(number, membership, group, change_id=message["change_id"])
        return message

    def _settle_state(self, message: Message) -> None:
        """Bring this worker to the state from which all survivors go on."""
        loop = self._loop
        if message["from_checkpoint"]:
            loop.bench.roll_back()
        elif loop.worker in message["behind"]:
            with kept(loop.state) if loop.has_state else nullcontext():
                received = loop.taking.take(message["generation"])
            loop.bench.adopt(received)
        elif loop.worker == message["source"]:
            give(loop, message)
        loop.has_state = True

    def _next_halt(self) -> int | None:
        """Wait for a recovery that was not tried yet, and return its number.

        A worker that died or hangs is noticed within ``hang_timeout_s``. If no halt came by then,
        the other workers may not know that the group is lost, and the leader is told.

        Returns:
            The number; None if this worker is dismissed.

        Raises:
            ControlError: no halt came within ``recovery_timeout_s``.
        """
        loop = self._loop
        now = time.monotonic()
        until = now + loop.order.recovery_timeout_s
        tell_at = now + loop.order.hang_timeout_s
        # Not ``halt``: the waits of the new attempt must begin after the old ones were ended.
        while loop.released <= self._attempted:
            if loop.is_dismissed:
                return None
            wait_s = min(tell_at, until) - time.monotonic()
            try:
                message = loop.member.directives.get(timeout=max(0.0, wait_s))
            except queue.Empty:
                if tell_at < until:
                    tell_at = math.inf
                    if loop.generation:  # else it was only joining, and no group misses it
                        loop.tell_failed(loop.generation, "its group was lost")
                    continue
                raise ControlError(
                    "the group was lost, and nobody said how to go on for"
                    f" {loop.order.recovery_timeout_s} s (recovery_timeout_s)"
                ) from None
            if message["kind"] == "exit":
                loop.is_dismissed = True
        return None if loop.is_dismissed else loop.released

    def _directive(self, kind: str, number: int) -> Message | None:
        """Return the leader's message of this kind in this recovery; None if dismissed.

        Raises:
            GroupLost: another recovery has begun.
            ControlError: nothing came in time.
        """
        loop = self._loop
        until = time.monotonic() + loop.order.recovery_timeout_s
        while True:
            if loop.is_dismissed:
                return None
            if loop.halt != number:
                raise GroupLost("another recovery has begun")
            try:
                message = loop.member.directives.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise ControlError(
                    f"the leader has not said {kind!r} within"
                    f" {loop.order.recovery_timeout_s} s (recovery_timeout_s)"
                ) from None
            if message["kind"] == "exit":
                loop.is_dismissed = True
            elif message["kind"] == kind and message["generation"] == number:
                return message

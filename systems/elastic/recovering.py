"""A survivor's way from the loss of a group to the next one.

Source: EDL, section 4.3; what the leader decides is in ``recovery``.
"""

from __future__ import annotations

import math
import queue
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from harness.contracts.marks import Doing
from systems.elastic.groups import GroupLost
from systems.elastic.leaving import Outcome, give, tell_halted
from systems.elastic.recovery import Membership
from systems.elastic.transfer.channel import TransferError
from systems.elastic.transfer.kept_state import kept
from systems.runtime.control import ControlError, Message

QUIET_TIMEOUT_S = 5.0
ENDLESS = 2**62
MEETINGS = 3
"""So often a group that cannot be built is tried before a recovery has taken too long."""

if TYPE_CHECKING:
    from systems.elastic.elastic_loop import ElasticLoop


class Recovering:
    """What a worker's training thread does instead of training."""

    def __init__(self, loop: ElasticLoop) -> None:
        self._loop = loop
        self._attempted = 0

    def recover(self) -> Outcome | None:
        """Go on with the other survivors; if this worker is not to, how it has ended.

        Raises:
            ControlError: nobody has said how in time.
        """
        loop = self._loop
        loop.bench.mark.now(Doing.RECOVER)
        loop.trainer.undo()
        loop.words = loop.words.fresh()  # what was left behind may still write to the old ones
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
                continue  # another one died meanwhile, or the leader was told of the failure
        if message is None:
            return Outcome.LEFT
        if message["outcome"]:
            return Outcome(message["outcome"])
        loop.bench.phases_s["recover"] = time.monotonic() - started
        lost = [worker for worker in before.members if worker not in loop.membership.members]
        loop.telling.recovered(lost, loop.last_change_id)
        return None

    def _attempt(self) -> Message | None:
        """One recovery from the leader's halt to the new group, or to the end of the job if
        others have come to it; None: not for us.

        Raises:
            GroupLost: another began before it was over.
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
            if loop.halt != number:  # it came in between, and found nothing to cancel
                loop.regrouping.cancel_all()
                raise GroupLost("another recovery has begun")
        self._settle_state(message)
        if not is_member:
            return None
        group = loop.regrouping.take(number)
        loop.resumed = number
        loop.target_step = ENDLESS  # the others would not go on after their last step
        loop.enter(number, membership, group, change_id=message["change_id"])
        return message

    def _settle_state(self, message: Message) -> None:
        """Have the state that all go on from."""
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
        """The number of a recovery that was not tried yet; None if this worker is dismissed.

        Whoever was lost is known by the time that a hang takes to be noticed. If nobody was, the
        others may not know that the group is of no use any more: the leader is told.
        """
        loop = self._loop
        now = time.monotonic()
        until = now + loop.order.recovery_timeout_s
        tell_at = now + loop.order.hang_timeout_s
        # Not ``halt``: what this worker begins anew must not be ended with what was before.
        while loop.released <= self._attempted:
            if loop.is_dismissed:
                return None
            wait_s = min(tell_at, until) - time.monotonic()
            try:
                message = loop.member.directives.get(timeout=max(0.0, wait_s))
            except queue.Empty:
                if tell_at < until:
                    tell_at = math.inf
                    if loop.generation:  # else it was only joining, and is missed by nobody
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
        """The leader's message of this kind in this recovery; None if dismissed.

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

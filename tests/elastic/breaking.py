"""Breaks one transfer of state, or one group, in workers that are forked from a process that
imported this.

``BREAKS`` in the environment says how, ``BROKEN`` is a file that is made by the worker that
has done so. After a death every survivor but the source is made to take its state anew: how
many are behind would be left to chance otherwise.
"""

import itertools
import math
import os
import signal
import threading

import torch
from msgspec.structs import replace

from systems.elastic.leader import coordinator
from systems.elastic.transfer.channel import PeerLost, TransferError
from systems.elastic.transfer.receiver import Receiver
from systems.elastic.wire.recovery_plan import plan_resume
from systems.elastic.worker.group_builder import GroupBuilder
from systems.elastic.worker.receive_state import StateReceiver
from systems.runtime.wire.groups import Group, GroupLost

BREAKS = "ELASTRACE_TEST_BREAKS"
BROKEN = "ELASTRACE_TEST_BROKEN"
LATE_S = 0.5
SUMS_BEFORE = 40
"""Those of some steps: the words' and the gradients'."""


def all_behind(halted, *arguments):
    plan = plan_resume(halted, *arguments)
    if plan is None or plan.outcome or plan.from_checkpoint:
        return plan
    others = [worker for worker in plan.membership.members if worker != plan.source]
    return replace(plan, behind={one: (halted[one].address, halted[one].port) for one in others})


def is_first():
    """Whether nobody has broken anything yet; it is done then."""
    try:
        os.close(os.open(os.environ[BROKEN], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def refuse(greet=Receiver._greet):
    """The first connection is hung up on, and another waited for."""

    def broken(self, channel):
        if is_first():
            raise TransferError("refused")
        greet(self, channel)

    Receiver._greet = broken


def lose(take_all=Receiver._take_all):
    """The first connection breaks in the middle."""

    def broken(self, on_caught_up):
        if is_first():
            raise PeerLost("lost")
        return take_all(self, on_caught_up)

    Receiver._take_all = broken


def kill_donor(take_piece=Receiver._take_piece):
    """Whoever gives the first state dies in the middle, and what has come of it is of no use.

    Before it hears that the piece is here: it may send all the rest otherwise, and the kernel
    let its memory be read while it dies. That state is whole.
    """

    def broken(self, header):
        if not is_first():
            return take_piece(self, header)
        assert self._donor_pid
        os.kill(self._donor_pid, signal.SIGKILL)
        with torch.no_grad():
            for parameter in self._state.parameters:
                parameter.fill_(math.nan)
        raise PeerLost("the donor has died")

    Receiver._take_piece = broken


def cancel_late(cancel=StateReceiver.cancel, listen=StateReceiver.listen):
    """Every worker's first order to end what it takes is obeyed when it listens for the next
    state, if that does not wait for it."""
    listening, ended = threading.Event(), threading.Event()

    def broken(self):
        if not ended.is_set():
            is_first()
            listening.wait(LATE_S)
        cancel(self)
        ended.set()

    def watched(self):
        address = listen(self)
        listening.set()
        ended.wait(LATE_S)
        return address

    StateReceiver.cancel, StateReceiver.listen = broken, watched


def lose_group(all_reduce=Group.all_reduce):
    """In one worker a sum of some step breaks, which gives up the group for the others as well."""
    sums = itertools.count()

    def broken(self, tensor):
        if self.size > 1 and next(sums) > SUMS_BEFORE and is_first():
            self.give_up()
            raise GroupLost("a connection broke")
        return all_reduce(self, tensor)

    Group.all_reduce = broken


def break_thread(build=GroupBuilder._build):
    """In the first worker the thread that builds a group for three fails."""

    def broken(self, generation, membership, until):
        is_meant = len(membership.members) == 3 and membership.members[0] == self._worker
        if is_meant and is_first():
            raise MemoryError("no memory for a group")
        build(self, generation, membership, until)

    GroupBuilder._build = broken


def lose_founding(take=GroupBuilder.take):
    """The first founder's group is lost before it has begun.

    All have met by then: who lost the others while it still meets them would tell of that.
    """

    def broken(self, generation):
        group = take(self, generation)
        group.all_reduce(torch.zeros(1)).wait()
        if group.rank == 0 and is_first():
            group.give_up()
            raise GroupLost("a connection broke")
        return group

    GroupBuilder.take = broken


if BREAKS in os.environ:
    if os.environ[BREAKS] in ("refuse", "lose", "kill_donor", "cancel_late"):
        coordinator.plan_resume = all_behind
    {
        "refuse": refuse,
        "lose": lose,
        "kill_donor": kill_donor,
        "cancel_late": cancel_late,
        "lose_group": lose_group,
        "break_thread": break_thread,
        "lose_founding": lose_founding,
    }[os.environ[BREAKS]]()

"""Messages of elastic jobs: between driver and workers, and between workers and their leader.

Those of all backends are in ``runtime.wire.messages``. Each class says in its first line which
process sends it, and when. The tables at the end list the classes by direction.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from systems.elastic.wire.order import ElasticOrder
from systems.elastic.wire.recovery_plan import Halted, Membership, ResumePlan
from systems.runtime.wire.control_server import Channels
from systems.runtime.wire.messages import (
    DRIVER_TO_PROCESS,
    DRIVER_TO_WORKER,
    FROM_STORE,
    PROCESS_TO_DRIVER,
    WORKER_TO_DRIVER,
    ProcessGreeting,
    Progress,
    StoreGreeting,
)
from systems.runtime.wire.protocol import (
    Count,
    Greeting,
    Inbound,
    Message,
    Number,
    Port,
    Seconds,
)

# Greetings.


class MemberGreeting(ProcessGreeting, frozen=True, kw_only=True, tag="member_greeting"):
    """Worker to driver: it has started and awaits its order."""

    worker: str

    @property
    def sender(self) -> str:
        """Name of the process that greets, for reasons of refusals."""
        return f"worker {self.worker} of job {self.job_id}"


class MemberStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Knowledge of a worker from earlier leaders, which it tells the new leader that it greets."""

    members: tuple[str, ...] = ()
    """Members of the generation that it has entered last; empty if it is still joining."""
    highest: Count
    """Highest generation that it has heard of."""
    change_id: Number | None = None
    """Last change that it went through; None if there was none."""
    announced: Count = 0
    """Generation that it was told to switch to; 0: none."""
    receiver: tuple[str, Port] | None = None
    """Address and port where it can receive the state; None if it cannot."""


class LeaderGreeting(Greeting, frozen=True, kw_only=True, tag="leader_greeting"):
    """Worker to leader, when it follows that leader from now on."""

    worker: str
    status: MemberStatus

    @property
    def sender(self) -> str:
        """Name of the process that greets, for reasons of refusals."""
        return f"worker {self.worker}"


# Driver to worker.


class Stamped(Message, frozen=True, kw_only=True):
    """Base of all messages between a worker and the leader, which carry their sending time."""

    sent: Seconds | None = None
    """Sending time on the driver's clock; None before it is sent."""


class WorkersLost(Message, frozen=True, kw_only=True, tag="workers_lost"):
    """Driver to worker, at once when workers have died or are not wanted any more."""

    workers: tuple[str, ...]


class WhoLeads(Message, frozen=True, kw_only=True, tag="who_leads"):
    """Driver to worker, when the leader it knew is gone: the worker that leads must say so."""


class Adjust(Stamped, frozen=True, kw_only=True, tag="adjust"):
    """Driver to leading worker, which passes it on to its own server: change the members."""

    change_id: Number
    attempt: Count
    """Number of this request for the change, from 1 on."""
    membership: Membership
    """Members after the change."""
    joiners: tuple[str, ...]
    term: Count = 0
    """Term of the leader that the driver means."""


class Withdraw(Stamped, frozen=True, kw_only=True, tag="withdraw"):
    """Driver to leading worker, which passes it on to its own server: give a change up."""

    change_id: Number
    attempt: Count
    reason: str
    term: Count = 0
    """Term of the leader that the driver means."""


# Worker to driver.


class Leads(Message, frozen=True, kw_only=True, tag="leads"):
    """Worker to driver, when it has been elected, or was asked which worker leads."""

    term: Count


class LeadsNot(Message, frozen=True, kw_only=True, tag="leads_not"):
    """Worker to driver, when it gets a request for the leader and does not lead."""


class Suspect(Message, frozen=True, kw_only=True, tag="suspect"):
    """Worker or leader to driver: a worker is silent, or its connection has ended."""

    worker: str
    silent_s: Seconds
    """Seconds of silence; 0: the connection has ended."""


class Switched(Message, frozen=True, kw_only=True, tag="switched"):
    """Worker to driver, after its first step in the generation that a change has led to."""

    progress: Progress
    generation: Count
    members: tuple[str, ...]
    change_id: Number
    started: Seconds
    """Start of that step, on the driver's clock."""
    stopping_time_s: Seconds | None
    """Time since its last step before; None for a joiner."""
    phases_s: dict[str, Seconds]


class Recovered(Message, frozen=True, kw_only=True, tag="recovered"):
    """First worker to driver, after the first step without the workers that were lost."""

    progress: Progress
    generation: Count
    members: tuple[str, ...]
    lost: tuple[str, ...]
    change_id: Number | None
    """Last change that the survivors went through; None if there was none."""
    phases_s: dict[str, Seconds]


class Straggler(Message, frozen=True, kw_only=True, tag="straggler"):
    """First worker to driver, when workers were slow in enough steps running."""

    slowness: dict[str, Seconds]
    """Each straggler's time over the median."""
    members: tuple[str, ...]


class AdjustFailed(Message, frozen=True, kw_only=True, tag="adjust_failed"):
    """Leader to driver: a change will not be made."""

    change_id: Number
    attempt: Count
    reason: str


class AdjustKept(Message, frozen=True, kw_only=True, tag="adjust_kept"):
    """Leader to driver: a change can no longer be given up."""

    change_id: Number
    attempt: Count


class AdjustRetry(Message, frozen=True, kw_only=True, tag="adjust_retry"):
    """Leader to driver: another change is still under way."""

    change_id: Number
    attempt: Count


class Recovering(Message, frozen=True, kw_only=True, tag="recovering"):
    """Leader to driver: it has halted all workers, for the recovery of this number."""

    generation: Count


class RecoveryFailed(Message, frozen=True, kw_only=True, tag="recovery_failed"):
    """Leader to driver: no worker can go on."""

    reason: str


class Deposed(Message, frozen=True, kw_only=True, tag="deposed"):
    """Former leader to driver: the recovery that it had begun is now another leader's."""


# Worker to leader.


class FollowerBeat(Stamped, frozen=True, kw_only=True, tag="beat"):
    """Worker to leader: a sign of life, as the answer to the leader's beat."""


class Prepared(Stamped, frozen=True, kw_only=True, tag="prepared"):
    """Joiner to leader: it can receive the state at this address and port."""

    address: str
    port: Port


class StoppedFor(Stamped, frozen=True, kw_only=True, tag="stopped"):
    """Worker to leader, when it has stopped training for a change, at the end of a step."""

    generation: Count
    change_id: Number
    step: Count
    goes_on: bool
    """True once a leader has told it to go on in the same generation."""


class GroupBuilt(Stamped, frozen=True, kw_only=True, tag="built"):
    """Worker to leader: it has built a generation's group, or is no member of it."""

    generation: Count


class MeetingFailed(Stamped, frozen=True, kw_only=True, tag="meeting_failed"):
    """Worker to leader: a generation cannot begin as it was meant to."""

    generation: Count
    reason: str


class CaughtUp(Stamped, frozen=True, kw_only=True, tag="caught_up"):
    """Joiner to leader: it has the state and keeps up with the other workers."""

    generation: Count


class Entered(Stamped, frozen=True, kw_only=True, tag="entered"):
    """Worker to leader, when it has entered a generation."""

    generation: Count
    membership: Membership
    change_id: Number | None
    """Last change that it went through; None if there was none."""


class HaltedAt(Stamped, frozen=True, kw_only=True, tag="halted"):
    """Survivor to leader: it has stopped at a step boundary and waits."""

    number: Count
    """Number of the recovery."""
    report: Halted


class Deaths(Stamped, frozen=True, kw_only=True, tag="deaths"):
    """Worker to leader: all workers of whose deaths it has heard."""

    workers: tuple[str, ...] = ()
    parted: tuple[str, ...] = ()
    """Those of them without which it has gone on since, in its present generation."""


class Bye(Stamped, frozen=True, kw_only=True, tag="bye"):
    """Worker to leader: it leaves, or follows another leader; this is no death."""


# Leader to worker.


class LeaderBeat(Stamped, frozen=True, kw_only=True, tag="beat"):
    """Leader to worker, at regular intervals: a sign of life, which the worker answers."""


class Topology(Stamped, frozen=True, kw_only=True, tag="topology"):
    """Leader to worker: members of a future generation, and which member gives which its state."""

    generation: Count
    change_id: Number
    membership: Membership
    joiners: tuple[str, ...]
    donors: Mapping[str, tuple[tuple[str, Port], ...]]
    """Addresses of the joiners that each donor gives the state to, by donor."""

    @property
    def survivors(self) -> tuple[str, ...]:
        """Members of the generation before that stay, by their new ranks."""
        return tuple(w for w in self.membership.members if w not in self.joiners)


class Announce(Stamped, frozen=True, kw_only=True, tag="announce"):
    """Leader to worker: all members are ready to switch to this generation."""

    generation: Count


class Pause(Stamped, frozen=True, kw_only=True, tag="pause"):
    """Leader to first worker: let all workers stop for a change before it is prepared."""

    change_id: Number


class Cancel(Stamped, frozen=True, kw_only=True, tag="cancel"):
    """Leader to worker: a change was given up."""

    generation: Count
    """Generation that it would have led to; 0 if that is not known."""
    change_id: Number


class Halt(Stamped, frozen=True, kw_only=True, tag="halt"):
    """Leader to worker: stop at a step boundary, for the recovery of this number."""

    generation: Count


class Resume(Stamped, frozen=True, kw_only=True, tag="resume"):
    """Leader to halted worker: how the survivors go on, in the generation of this number."""

    generation: Count
    plan: ResumePlan


class Dismissed(Stamped, frozen=True, kw_only=True, tag="dismissed"):
    """Leader to joiner: its change was given up, so it may go."""


# Tables. Each class is in one of them; a channel accepts the sum of some.

DRIVER_TO_MEMBER = (ElasticOrder, WorkersLost, WhoLeads)
DRIVER_TO_LEADER = (Adjust, Withdraw)
MEMBER_TO_DRIVER = (Leads, LeadsNot, Suspect, Switched, Recovered, Straggler)
LEADER_TO_DRIVER = (
    AdjustFailed,
    AdjustKept,
    AdjustRetry,
    Recovering,
    RecoveryFailed,
    Deposed,
)
MEMBER_TO_LEADER = (
    FollowerBeat,
    Prepared,
    StoppedFor,
    GroupBuilt,
    MeetingFailed,
    CaughtUp,
    Entered,
    HaltedAt,
    Deaths,
    Bye,
)
LEADER_TO_MEMBER = (
    LeaderBeat,
    Topology,
    Announce,
    Pause,
    Cancel,
    Halt,
    Resume,
    Dismissed,
)

TO_MEMBER = Inbound(*DRIVER_TO_PROCESS, *DRIVER_TO_WORKER, *DRIVER_TO_MEMBER, *DRIVER_TO_LEADER)
"""Messages that a worker accepts from the driver."""
FROM_LEADER = Inbound(*LEADER_TO_MEMBER)
"""Messages that a worker accepts from the leader."""
DRIVER_CHANNELS = Channels(
    {
        StoreGreeting: FROM_STORE,
        MemberGreeting: Inbound(
            *PROCESS_TO_DRIVER, *WORKER_TO_DRIVER, *MEMBER_TO_DRIVER, *LEADER_TO_DRIVER
        ),
    }
)
"""Greetings and messages that a driver accepts from a job's processes."""
LEADER_CHANNELS = Channels({LeaderGreeting: Inbound(*MEMBER_TO_LEADER, *DRIVER_TO_LEADER)})
"""Greetings and messages that a leader accepts; a leading worker passes the driver's on."""

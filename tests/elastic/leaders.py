"""A leader with its workers, and what it was asked for and said, for tests by hand."""

from msgspec.structs import replace

from systems.elastic.leader.coordinator import Coordinator
from systems.elastic.wire.messages import Adjust, MemberStatus
from systems.elastic.wire.recovery_plan import Membership
from systems.runtime.wire.protocol import kind_of

STATUS = MemberStatus(highest=1)


def leader(*members, transfer="background", recovery="exact", **options):
    found = Coordinator(Membership(members, 12), 1, transfer=transfer, recovery=recovery, **options)
    for worker in members:
        assert found.registered(worker, replace(STATUS, members=members)) == []
    return found


def come(lead, *joiners):
    """These have connected, and can take the state."""
    for worker in joiners:
        lead.registered(worker, STATUS)
        lead.prepared(worker, "h", 1)


def adjust(members, joiners, change_id=7, global_batch=12):
    target = Membership(tuple(members), global_batch)
    return Adjust(change_id=change_id, attempt=1, membership=target, joiners=tuple(joiners))


def kinds(actions):
    return [(getattr(a, "worker", "driver"), kind_of(a.message)) for a in actions]


def halts(*workers):
    """What a leader does first in a recovery, in the form of ``kinds``."""
    return [*((worker, "halt") for worker in workers), ("driver", "recovering")]

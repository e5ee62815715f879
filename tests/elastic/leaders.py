"""A leader with its workers, and what it was asked for and said, for tests by hand."""

from systems.elastic.leader.coordinator import Coordinator
from systems.elastic.wire.recovery_plan import Membership

STATUS = {"members": (), "highest": 1, "change_id": None, "announced": 0, "prepared": False}


def leader(*members, transfer="background", recovery="exact", **options):
    found = Coordinator(Membership(members, 12), 1, transfer=transfer, recovery=recovery, **options)
    for worker in members:
        assert found.registered(worker, {**STATUS, "members": members}) == []
    return found


def come(lead, *joiners):
    """These have connected, and can take the state."""
    for worker in joiners:
        lead.registered(worker, STATUS)
        lead.prepared(worker, "h", 1)


def adjust(members, joiners, change_id=7, global_batch=12):
    return {
        "change_id": change_id,
        "attempt": 1,
        "members": list(members),
        "joiners": list(joiners),
        "global_batch": global_batch,
    }


def kinds(actions):
    return [(getattr(a, "worker", "driver"), a.message["kind"]) for a in actions]


def halts(*workers):
    """What a leader does first in a recovery, in the form of ``kinds``."""
    return [*((worker, "halt") for worker in workers), ("driver", "recovering")]

"""Who has stopped for a change, and is led by another leader than the one that had all stop."""

from dataclasses import replace as at_another

from msgspec.structs import replace

from systems.elastic.leader.coordinator import Coordinator
from systems.elastic.leader.paused_workers import Stop
from systems.elastic.wire.messages import Announce
from systems.elastic.wire.recovery_plan import Membership
from tests.elastic.leaders import STATUS, adjust, kinds, leader

AT = Stop(generation=1, change_id=7, step=20)


def stopped(*workers):
    """A new leader of a, b and c, to whom these say that they have stopped for change 7."""
    lead = Coordinator(Membership(tuple("abc"), 12), 1, transfer="peer", recovery="none")
    for worker in "abc":
        assert lead.registered(worker, replace(STATUS, members=tuple("abc"))) == []
    for worker in workers:
        assert lead.stopped(worker, AT, goes_on=False) == []
    return lead


def test_a_switch_for_which_all_had_stopped_is_announced_by_a_new_leader():
    """b had not read the word of the one before when it greeted this one."""
    lead = stopped("b")
    (told,) = lead.switched("a", 2, Membership(("a", "b"), 12), 7)
    assert (told.worker, told.message) == ("b", Announce(generation=2))
    (told,) = lead.stopped("c", AT, goes_on=False)  # which leaves
    assert (told.worker, told.message.generation) == ("c", 2)
    assert lead.switched("b", 2, Membership(("a", "b"), 12), 7) == []


def test_a_change_that_a_new_leader_is_not_asked_for_keeps_nobody_from_training():
    freed = stopped("a", "b").stopped("c", AT, goes_on=False)
    assert kinds(freed) == [(worker, "cancel") for worker in "abc"]
    assert freed[0].message.change_id == 7


def test_whom_the_leader_before_told_to_go_on_is_followed_by_the_others():
    lead = stopped("b")
    assert kinds(lead.stopped("a", AT, goes_on=True)) == [("b", "cancel")]
    assert kinds(lead.stopped("c", AT, goes_on=False)) == [("c", "cancel")]
    # Also if it is asked for again; of the next stop for it all are still to hear.
    lead = stopped("b")
    lead.adjust(adjust("ab", ""))
    assert kinds(lead.stopped("a", AT, goes_on=True)) == [("b", "cancel")]
    assert lead.stopped("b", at_another(AT, step=21), goes_on=False) == []


def test_who_has_stopped_for_a_change_that_is_asked_for_again_waits():
    lead = stopped("a", "b")
    assert kinds(lead.adjust(adjust("ab", ""))) == [(worker, "topology") for worker in "abc"]
    assert lead.stopped("c", AT, goes_on=False) == []


def test_who_stops_for_a_change_that_was_made_goes_on():
    """A new leader was asked for it again before it heard of it."""
    lead = leader("a", "b", "c", stops_first=True)
    assert kinds(lead.adjust(adjust("ab", "")))[0] == ("a", "pause")
    assert lead.switched("a", 3, Membership(("a", "b"), 12), 7) == []
    assert kinds(lead.stopped("b", Stop(3, 7, 20), goes_on=False)) == [("b", "cancel")]


def test_a_switch_that_somebody_was_told_of_is_not_given_up():
    """It has read the word of the leader before, or is about to; the others had not."""
    lead = stopped("a", "b")
    status = replace(STATUS, members=tuple("abc"), highest=2, announced=2)
    told = lead.registered("c", status) + lead.stopped("c", AT, goes_on=False)
    assert kinds(told) == [(worker, "announce") for worker in "abc"]
    assert {one.message.generation for one in told} == {2}

"""What a leader decides that follows another and knows less, by hand (``test_coordinator``)."""

import pytest
from msgspec.structs import replace

from systems.elastic.leader.coordinator import Coordinator
from systems.elastic.leader.paused_workers import Stop
from systems.elastic.wire.messages import AdjustKept, Announce, Halt
from systems.elastic.wire.recovery_plan import Halted, Membership
from tests.elastic.leaders import STATUS, adjust, halts, kinds, leader


def test_a_new_leader_halts_those_that_a_leaver_keeps_from_their_switch():
    members = Membership(("a", "b"), 12)
    lead = Coordinator(members, 2, transfer="peer", recovery="exact")
    lead.registered("a", replace(STATUS, members=("a", "b"), highest=2))
    assert lead.lost(["c", "x"]) == []
    sent = lead.registered("b", replace(STATUS, members=("a", "b", "c"), highest=2))
    assert kinds(sent) == halts("a", "b")


def test_a_new_leader_helps_those_whom_the_one_before_it_had_halted():
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("a", replace(STATUS, members=("a", "b"), highest=7))
    assert lead.halted("a", 6, Halted(6, 10, "h", 1)) == [], "of a recovery that is over"
    sent = lead.halted("a", 7, Halted(6, 10, "h", 1))
    assert kinds(sent) == halts("a")
    assert sent[0].message == Halt(generation=8)


JOINS = replace(STATUS, highest=7, receiver=("h", 3))


@pytest.mark.parametrize("is_early", [True, False])
def test_a_leaver_that_leads_after_a_death_in_the_switch_has_the_newcomer_go_on(is_early):
    """The first worker was to stay, and died when the leaver had just left; the leaver was elected
    and has the only state. It leads the generation in which it was a member."""
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("b", replace(STATUS, members=("a", "b"), highest=7))
    assert kinds(lead.lost(["a"])) == halts("b")
    if is_early:
        assert lead.registered("c", JOINS) == []
    left_for = Membership(("a", "c"), 12)
    sent = lead.halted("b", 8, Halted(7, 114, "", 0, "", left_for, 5))
    if not is_early:
        assert sent == [], "of those that trained, it is alone"
        sent = lead.registered("c", JOINS)
    assert kinds(sent) == [("c", "halt")]
    sent = lead.halted("c", 8, Halted(0, -1, "h", 3, "", Membership((), 12)))
    assert kinds(sent) == [("b", "resume"), ("c", "resume")]
    plan = sent[0].message.plan
    assert (plan.membership.members, plan.source, plan.step) == (("c",), "b", 114)
    assert plan.behind == {"c": ("h", 3)}
    assert plan.change_id == 5, "the change is made"
    assert lead.switched("c", 8, Membership(("c",), 12), 5) == []
    assert lead.adjust(adjust("ac", "c", 5)) == []
    assert lead.recovery is None


def test_a_newcomer_that_says_first_where_it_trains_is_halted_with_the_others():
    """As above, but the newcomer, which has entered, is heard before the leaver has halted."""
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("b", replace(STATUS, members=("a", "b"), highest=7))
    assert kinds(lead.lost(["a"])) == halts("b")
    new = Membership(("a", "c"), 12)
    assert lead.registered("c", replace(JOINS, members=new.members)) == []
    assert kinds(lead.switched("c", 7, new, 5)) == [("c", "halt")]
    assert lead.halted("b", 8, Halted(7, 114, "", 0, "", new, 5)) == []
    sent = lead.halted("c", 8, Halted(7, 114, "h", 3, "", new, 5))
    assert kinds(sent) == [("b", "resume"), ("c", "resume")]
    assert sent[0].message.plan.membership.members == ("c",)


@pytest.mark.parametrize("was_made", [True, False])
def test_a_change_asked_for_again_in_a_recovery_is_answered_when_it_is_known(was_made):
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    for worker in "ab":
        lead.registered(worker, replace(STATUS, members=("a", "b"), highest=7))
    lead.lost(["c"])
    lead.lost(["b"])
    assert lead.adjust(adjust("ad", "d", 5)) == []
    new = Membership(("a", "d") if was_made else ("a", "b"), 12)
    last = 5 if was_made else 3
    sent = lead.halted("a", 9, Halted(7 if was_made else 6, 10, "h", 1, "", new, last))
    if was_made:
        lead.registered("d", JOINS)
        sent = lead.halted("d", 9, Halted(0, -1, "h", 3))
    members = ["a", "d"] if was_made else ["a"]
    assert sent[0].message.plan.membership.members == tuple(members)
    answers = lead.switched("a", 9, Membership(tuple(members), 12), last)
    assert kinds(answers) == ([] if was_made else [("driver", "adjust_failed")])


def test_what_became_of_a_change_of_the_leader_before_is_found_out_before_it_is_given_up():
    """The one before may have announced it: it had given a number."""
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("a", replace(STATUS, members=("a", "b"), highest=7))
    lead.registered("b", replace(STATUS, members=("a", "b"), highest=7))
    assert kinds(lead.withdraw(5, "late", 1)) == halts("a", "b")
    new = Membership(("a",), 12)
    lead.halted("a", 8, Halted(7, 10, "h", 1, "", new, 5))
    lead.halted("b", 8, Halted(7, 10, "", 0, "", new, 5))
    assert kinds(lead.switched("a", 8, new, 5)) == [("driver", "adjust_kept")]


def test_a_change_is_not_made_though_one_that_has_died_had_gone_through_it():
    """It halted first, with the state after that; who goes on has not seen it."""
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    for worker in "ab":
        lead.registered(worker, replace(STATUS, members=("a", "b"), highest=7))
    lead.withdraw(5, "late", 1)
    lead.halted("b", 8, Halted(7, 11, "", 0, "", Membership(("a",), 12), 5))
    lead.lost(["b"])
    lead.halted("a", 9, Halted(6, 10, "h", 1, "", Membership(("a", "b"), 12), 3))
    sent = lead.switched("a", 9, Membership(("a",), 12), 3)
    assert kinds(sent) == [("driver", "adjust_failed")]


def test_what_a_leader_before_may_have_announced_is_not_given_up_though_asked_for_again():
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("a", replace(STATUS, members=("a", "b"), highest=7))
    assert lead.adjust(adjust("a", "", 5)) == [], "b is not here yet"
    assert kinds(lead.withdraw(5, "late", 1)) == halts("a")
    assert kinds(lead.registered("b", replace(STATUS, members=("a", "b"), highest=7))) == [
        ("b", "halt")
    ]
    old = Membership(("a", "b"), 12)
    for worker in "ab":
        sent = lead.halted(worker, 8, Halted(6, 10, "h", 1, "", old))
    assert kinds(sent) == [("a", "resume"), ("b", "resume"), ("driver", "adjust_failed")]
    assert lead.switched("a", 8, old) == [], "it was answered"


def test_a_death_in_doubt_ends_no_recovery_that_it_does_not_concern():
    """A newcomer whose change was given up is ended, and the others are told, while they meet."""
    lead = Coordinator(Membership(("a",), 12), 6, transfer="peer", recovery="exact")
    lead.registered("a", replace(STATUS, members=("a",), highest=7))
    assert kinds(lead.withdraw(5, "late", 1)) == halts("a")
    assert kinds(lead.halted("a", 8, Halted(6, 10, "h", 1))) == [("a", "resume")]
    assert lead.lost(["c"]) == []


def test_a_newcomer_that_may_have_entered_is_waited_for_and_counts():
    """Who halts has heard of a generation that it has not entered; who joins there may have."""
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("b", replace(STATUS, members=("a", "b"), highest=7))
    lead.lost(["a"])
    old, new = Membership(("a", "b"), 12), Membership(("a", "b", "c"), 12)
    assert lead.halted("b", 8, Halted(6, 10, "h", 1, "", old, None, ("c",))) == []
    assert lead.missing() == {"c"}, "else nobody would notice that it hangs"
    status = replace(STATUS, members=new.members, highest=7)
    assert kinds(lead.registered("c", status)) == [("c", "halt")]
    lead.switched("c", 7, new, 5)
    to_b = lead.halted("c", 8, Halted(7, 11, "h", 2, "", new, 5))[0]
    assert to_b.message.plan.membership.members == ("b", "c")
    assert (to_b.message.plan.source, to_b.message.plan.step) == ("c", 11)


def test_a_founder_is_missed_once_another_has_met_it_and_not_before():
    """It may need as long as a start may take; afterwards its silence is a hang."""
    founders = Membership(("a", "b"), 12)
    lead = Coordinator(founders, 1, transfer="peer", recovery="exact")
    lead.registered("a", replace(STATUS, members=founders.members))
    assert lead.missing() == set()
    lead.switched("a", 1, founders)
    assert lead.missing() == {"b"}


def test_a_newcomer_that_died_or_left_is_not_waited_for():
    for gone in ("lost", "left"):
        lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
        lead.registered("b", replace(STATUS, members=("a", "b"), highest=7))
        lead.registered("c", JOINS)
        lead.lost(["a"])
        lead.halted("b", 8, Halted(6, 10, "h", 1, "", Membership(("a", "b"), 12), None, ("c",)))
        if gone == "left":
            assert kinds(lead.left("c")) == [("b", "resume")]
        else:
            assert kinds(lead.lost(["c"])) == halts("b")
            assert kinds(lead.halted("b", 9, Halted(6, 10, "h", 1))) == [("b", "resume")]


def test_others_may_count_on_a_newcomer_that_a_new_leader_has_not_heard_of():
    """It died; the leader before may have announced the switch to a group with it."""
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    for worker in "ab":
        lead.registered(worker, replace(STATUS, members=("a", "b"), highest=7))
    assert kinds(lead.lost(["c"])) == halts("a", "b")


def test_a_death_that_all_have_survived_halts_nobody_though_a_change_is_in_doubt():
    """A leaver leads for a moment, and hears of it from the others: whoever died before they
    entered the present generation was to join in none after it."""
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("a", replace(STATUS, members=("a", "b"), highest=7))
    assert lead.lost(["x"], parted=["x"]) == []
    assert kinds(lead.lost(["x", "c"], parted=["x"])) == halts("a")


def test_a_member_whose_death_another_has_survived_is_missed_all_the_same():
    lead = Coordinator(Membership(("a", "b", "c"), 12), 6, transfer="peer", recovery="exact")
    for worker in "ab":
        lead.registered(worker, replace(STATUS, members=("a", "b", "c"), highest=7))
    assert kinds(lead.lost(["c"], parted=["c"])) == halts("a", "b")


def test_a_change_is_not_given_up_before_all_have_come_who_may_know_that_it_was_made():
    after = Membership(("b", "c"), 12)
    lead = Coordinator(after, 7, transfer="peer", recovery="exact")
    lead.registered("b", replace(STATUS, members=after.members, highest=7))
    assert lead.withdraw(5, "late", 3) == []
    (answer,) = lead.registered("c", replace(STATUS, members=after.members, highest=7, change_id=5))
    assert answer.message == AdjustKept(change_id=5, attempt=3)


def test_a_change_is_given_up_once_all_have_come_and_nobody_knows_of_it():
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("a", replace(STATUS, members=("a", "b"), highest=6))
    assert lead.withdraw(5, "late", 1) == []
    sent = lead.registered("b", replace(STATUS, members=("a", "b"), highest=6))
    assert kinds(sent) == [("driver", "adjust_failed")]


def test_a_death_while_all_are_awaited_tells_what_became_of_the_change():
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("a", replace(STATUS, members=("a", "b"), highest=6))
    lead.withdraw(5, "late", 1)
    assert kinds(lead.lost(["b"])) == halts("a")
    lead.halted("a", 7, Halted(6, 10, "h", 1))
    sent = lead.switched("a", 7, Membership(("a",), 12))
    assert kinds(sent) == [("driver", "adjust_failed")]


def test_a_change_that_a_worker_says_it_went_through_is_not_begun_again():
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("a", replace(STATUS, members=("a", "b"), highest=6))
    lead.adjust(adjust("bc", "c", 5))
    assert lead.adjustment is not None
    lead.registered("c", replace(JOINS, members=("b", "c"), change_id=5))
    assert lead.adjustment is None


def test_who_has_stopped_for_a_change_that_was_made_is_told_where_it_led():
    """Another has made the switch, and says so when it comes; where it led, a word later."""
    options = {"transfer": "peer", "recovery": "none", "stops_first": True}
    lead = Coordinator(Membership(("a", "b"), 12), 6, **options)
    lead.registered("a", replace(STATUS, members=("a", "b"), highest=6))
    lead.registered("b", replace(STATUS, members=("b", "a"), highest=7, change_id=5))
    assert lead.stopped("a", Stop(6, 5, 10), goes_on=False) == []
    (word,) = lead.switched("b", 7, Membership(("b", "a"), 12), 5)
    assert (word.worker, word.message) == ("a", Announce(generation=7))


def test_a_change_that_no_leader_has_begun_is_given_up_at_once():
    lead = leader("a", "b")
    assert kinds(lead.withdraw(5, "late", 1)) == [("driver", "adjust_failed")]


def test_a_number_that_a_leader_before_has_used_is_not_used_again():
    lead = Coordinator(Membership(tuple("abc"), 12), 1, transfer="peer", recovery="exact")
    lead.registered("a", STATUS)
    assert lead.lost(["c"])[0].message == Halt(generation=2)
    again = lead.registered("b", replace(STATUS, highest=2))
    assert kinds(again) == halts("a", "b")
    assert {action.message.generation for action in again} == {3}


def test_a_number_is_not_used_again_though_it_was_for_one_that_is_of_no_concern_yet():
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    lead.registered("b", replace(STATUS, members=("a", "b"), highest=7))
    assert lead.lost(["a"])[0].message.generation == 8
    sent = lead.registered("c", replace(STATUS, members=("a", "c"), highest=8))
    assert [(one.worker, one.message.generation) for one in sent[:-1]] == [("b", 9)]


def test_a_change_that_a_new_leader_knows_nothing_of_is_given_up_when_asked_for():
    assert kinds(leader("a", "b").withdraw(7, "late", 1)) == [("driver", "adjust_failed")]

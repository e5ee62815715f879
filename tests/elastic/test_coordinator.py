"""The leader's decisions, by hand; ``test_coordinator_model`` has them under random faults."""

import pytest
from msgspec.structs import replace

from systems.elastic.leader.actions import Answer
from systems.elastic.leader.coordinator import Coordinator
from systems.elastic.wire.messages import AdjustFailed, AdjustRetry
from systems.elastic.wire.recovery_plan import Halted, Membership, plan_resume
from tests.elastic.leaders import STATUS, adjust, come, halts, kinds, leader


def shrunk(*switched):
    """The leader of a, b and c, of whom c leaves; these have entered the generation after."""
    lead = leader("a", "b", "c")
    lead.adjust(adjust("ab", ""))
    for worker in "abc":
        lead.built(worker, 2)
    for worker in switched:
        lead.switched(worker, 2, Membership(("a", "b"), 12), 7)
    return lead


def test_scale_out_by_hand():
    lead = leader("a", "b")
    assert lead.adjust(adjust("abc", "c")) == []
    assert lead.registered("c", STATUS) == []
    sent = lead.prepared("c", "127.0.0.1", 5)
    assert kinds(sent) == [("a", "topology"), ("b", "topology"), ("c", "topology")]
    assert sent[0].message.donors == {"a": (("127.0.0.1", 5),)}
    assert sent[0].message.generation == 2
    for worker in "abc":
        assert lead.built(worker, 2) == []
    assert kinds(lead.caught_up("c", 2)) == [("a", "announce")]
    assert lead.switched("a", 2, Membership(tuple("abc"), 12), 7) == []
    assert (lead.members, lead.adjustment) == (tuple("abc"), None)


def test_scale_in_needs_neither_joiner_nor_state():
    lead = leader("a", "b", "c")
    sent = lead.adjust(adjust("ab", ""))
    assert kinds(sent) == [("a", "topology"), ("b", "topology"), ("c", "topology")]
    assert lead.built("b", 2) == []
    assert lead.built("a", 2) == []
    assert kinds(lead.built("c", 2)) == [("a", "announce")]  # the leaver knows it too


def test_all_workers_replaced_get_their_state_from_those_that_leave():
    lead = leader("a", "b")
    lead.adjust(adjust("cd", "cd"))
    for worker, port in (("c", 1), ("d", 2)):
        lead.registered(worker, STATUS)
        sent = lead.prepared(worker, "h", port)
    assert sent[0].message.donors == {"a": (("h", 1),), "b": (("h", 2),)}


def test_one_adjustment_at_a_time():
    lead = leader("a", "b")
    lead.adjust(adjust("abc", "c"))
    assert lead.adjust(adjust("abc", "c")) == []  # the driver asks a new leader again
    retry = Answer(AdjustRetry(change_id=8, attempt=1))
    assert lead.adjust(adjust("a", "", 8)) == [retry]


def test_a_joiner_that_dies_before_the_switch_disturbs_nobody():
    lead = leader("a", "b")
    lead.adjust(adjust("abcd", "cd"))
    come(lead, "c", "d")
    actions = lead.lost(["c"])
    assert kinds(actions) == [
        ("d", "dismissed"),
        ("a", "cancel"),
        ("b", "cancel"),
        ("driver", "adjust_failed"),
    ]
    assert lead.recovery is None
    assert lead.adjust(adjust("a", "", 9))


def test_a_joiner_that_dies_once_the_switch_is_announced_counts_as_a_member():
    lead = leader("a", "b", transfer="peer")
    lead.adjust(adjust("abc", "c"))
    come(lead, "c")
    for worker in "abc":
        announced = lead.built(worker, 2)
    assert kinds(announced) == [("a", "announce")]
    assert kinds(lead.lost(["c"])) == halts("a", "b")


def test_an_adjustment_with_a_dead_or_unknown_worker_is_refused():
    lead = leader("a", "b", recovery="none")
    lead.lost(["c"])
    (answer,) = lead.adjust(adjust("abc", "c"))
    assert answer.message == AdjustFailed(change_id=7, attempt=1, reason="c died")
    (answer,) = lead.adjust(replace(adjust("abc", "c"), attempt=2))
    assert answer.message == AdjustFailed(change_id=7, attempt=2, reason="c died")
    (answer,) = lead.adjust(adjust("abx", "", 8))
    assert answer.message.reason == "x neither train nor join"


def test_survivors_go_on_from_the_last_step_that_anybody_committed():
    lead = leader("a", "b", "c")
    assert kinds(lead.lost(["c"])) == halts("a", "b")
    assert lead.halted("a", 2, Halted(1, 10, "h", 1)) == []
    (to_a, to_b) = lead.halted("b", 2, Halted(1, 11, "h", 2))
    assert to_a.message == to_b.message
    assert to_a.message.plan.step == 11
    assert to_a.message.plan.source == "b"
    assert to_a.message.plan.behind == {"a": ("h", 1)}
    assert to_a.message.plan.membership.members == ("a", "b")


@pytest.mark.parametrize(
    ("mode", "source", "behind"), [("exact", "b", {"a"}), ("approximate", "a", {"b"})]
)
def test_whose_state_counts_is_what_the_mode_says(mode, source, behind):
    halted = {"a": Halted(1, 10, "h", 1), "b": Halted(1, 11, "h", 2)}
    plan = plan_resume(halted, {1: Membership(("a", "b", "c"), 12)}, {"c"}, mode)
    assert (plan.source, set(plan.behind)) == (source, behind)


def test_consistent_recovery_takes_nobodys_state():
    halted = {"a": Halted(1, 10, "h", 1), "b": Halted(1, 11, "h", 2)}
    plan = plan_resume(halted, {1: Membership(("a", "b"), 12)}, (), "consistent")
    assert plan.from_checkpoint
    assert plan.behind == {}


def test_a_leaver_can_be_the_only_one_that_knows_the_last_step():
    halted = {"a": Halted(1, 10, "h", 1), "c": Halted(1, 11, "h", 3)}
    known = {1: Membership(("a", "b", "c"), 12), 2: Membership(("a", "b"), 12)}
    plan = plan_resume(halted, known, {"b"}, "exact")
    assert plan.membership.members == ("a", "c")  # nobody has switched: it stays
    halted["c"] = Halted(2, 11, "h", 3)
    plan = plan_resume(halted, known, {"b"}, "exact")
    assert plan.membership.members == ("a",)
    assert (plan.source, set(plan.behind)) == ("c", {"a"})


def test_a_leaver_that_dies_may_keep_others_from_their_switch():
    lead = shrunk("a")  # b may have lost its last step with c
    assert kinds(lead.lost(["c"])) == halts("a", "b")


def test_a_leaver_that_dies_is_not_waited_for_by_a_recovery():
    lead = shrunk("a", "b")
    assert kinds(lead.lost(["b"])) == halts("a", "c")
    assert lead.halted("a", 3, Halted(2, 10, "h", 1)) == []
    assert kinds(lead.lost(["c"])) == [("a", "resume")]


def test_a_change_that_has_failed_is_not_begun_again_by_a_request_that_comes_twice():
    lead = leader("a", "b", "c")
    lead.adjust(adjust("ab", ""))
    lead.lost(["c"])
    for worker in "ab":
        sent = lead.halted(worker, 3, Halted(1, 10, "h", 1))
    assert kinds(sent)[-1] == ("driver", "adjust_failed")
    for worker in "ab":
        lead.switched(worker, 3, Membership(("a", "b"), 12))
    (answer,) = lead.adjust(replace(adjust("ab", ""), attempt=2))
    assert isinstance(answer.message, AdjustFailed)
    assert answer.message.attempt == 2
    assert lead.adjustment is None


def test_a_leaver_that_dies_once_all_have_switched_disturbs_nobody():
    lead = shrunk("a", "b")
    assert lead.lost(["c"]) == []


def test_who_trained_in_a_generation_that_the_leader_has_not_heard_of_can_go_on():
    halted = {"b": Halted(1, 7, "h", 1, "", Membership(("a", "b"), 12))}
    plan = plan_resume(halted, {2: Membership(("c", "b"), 12)}, {"a", "c"}, "exact")
    assert (plan.membership.members, plan.source, plan.step) == (("b",), "b", 7)


def test_a_death_after_a_switch_that_a_recovery_made_halts_those_that_meet():
    lead = leader("x", "a")
    lead.adjust(adjust("xcd", "cd"))
    come(lead, "c", "d")
    new = Membership(("x", "c", "d"), 12)
    lead.lost(["x"])
    lead.halted("a", 3, Halted(2, 9, "", 0, "", new, 7))
    for worker in "cd":
        sent = lead.halted(worker, 3, Halted(0, -1, "h", 1))
    assert sent[0].message.plan.membership.members == ("c", "d")
    assert ("d", "halt") in kinds(lead.lost(["c"]))


def test_a_death_may_have_been_that_of_a_newcomers_donor():
    lead = Coordinator(Membership(("a", "b"), 12), 6, transfer="peer", recovery="exact")
    for worker, members in (("a", ("a", "b")), ("b", ())):
        assert lead.registered(worker, replace(STATUS, members=members, highest=6)) == []
    assert kinds(lead.lost(["c"])) == halts("a", "b")


@pytest.mark.parametrize("mode", ["exact", "approximate", "consistent"])
def test_once_a_survivor_has_made_the_last_step_nobody_goes_on(mode):
    halted = {
        "a": Halted(1, 19, "h", 1),
        "b": Halted(1, 20, "", 0, "finished"),
        "c": Halted(1, 20, "", 0, "finished"),
    }
    plan = plan_resume(halted, {1: Membership(tuple("abcd"), 12)}, {"d"}, mode)
    assert plan.membership.members == ("b", "c", "a")
    assert (plan.outcome, plan.step, plan.behind) == ("finished", 20, {})
    assert not plan.from_checkpoint


def test_survivors_that_cannot_meet_halt_anew():
    lead = leader("a", "b", "c")
    lead.lost(["c"])
    lead.halted("a", 2, Halted(1, 10, "h", 1))
    assert kinds(lead.halted("b", 2, Halted(1, 10, "h", 2))) == [("a", "resume"), ("b", "resume")]
    again = lead.meeting_failed("b", 2, "the store has died")
    assert kinds(again) == halts("a", "b")
    assert {action.message.generation for action in again} == {3}
    lead.halted("b", 3, Halted(1, 10, "h", 2))
    lead.halted("a", 3, Halted(1, 10, "h", 1))
    assert lead.switched("a", 3, Membership(("a", "b"), 12)) == []
    assert kinds(lead.meeting_failed("b", 3, "late")) == halts("a", "b")


def test_a_member_that_cannot_enter_a_generation_others_count_on_makes_all_meet_anew():
    """Each gives up what only it waits for; one that is late disturbs no recovery."""
    lead = leader("a", "b", transfer="peer")
    lead.adjust(adjust("abc", "c"))
    come(lead, "c")
    for worker in "abc":
        lead.built(worker, 2)
    everybody = halts("a", "b", "c")
    assert kinds(lead.meeting_failed("c", 2, "the donor is silent")) == everybody
    assert lead.meeting_failed("a", 2, "the joiner is silent") == []
    lead.halted("a", 3, Halted(1, 10, "h", 1))
    lead.halted("b", 3, Halted(1, 10, "h", 2))
    actions = lead.halted("c", 3, Halted(0, -1, "h", 3))
    assert kinds(actions)[-1] == ("driver", "adjust_failed")
    assert "could not meet the others: the donor is silent" in actions[-1].message.reason


def test_without_anybody_who_has_the_state_there_is_no_plan():
    assert (
        plan_resume({"c": Halted(0, -1, "h", 1)}, {1: Membership(("a",), 1)}, "a", "exact") is None
    )


def test_a_change_that_takes_too_long_is_given_up_until_the_others_count_on_it():
    lead = leader("a", "b", "c")
    lead.adjust(adjust("ab", ""))
    for worker in "ab":
        lead.built(worker, 2)
    given_up = lead.withdraw(7, "not done within 1 s", 1)
    assert kinds(given_up) == [(worker, "cancel") for worker in "abc"] + [
        ("driver", "adjust_failed")
    ]
    assert given_up[-1].message.reason == "not done within 1 s"
    assert kinds(lead.withdraw(7, "asked again", 1)) == [("driver", "adjust_failed")]
    lead.adjust(adjust("ab", "", change_id=8))
    for worker in "abc":
        sent = lead.built(worker, 3)
    assert kinds(sent) == [("a", "announce")]
    assert kinds(lead.withdraw(8, "too late", 1)) == [("driver", "adjust_kept")]
    lead.switched("a", 3, Membership(("a", "b"), 12), 8)
    assert kinds(lead.withdraw(8, "too late", 1)) == [("driver", "adjust_kept")]


def test_a_group_that_broke_in_the_step_with_which_the_others_went_on_is_built_anew():
    lead = shrunk("a")
    assert kinds(lead.meeting_failed("b", 1, "its group was lost")) == halts("a", "b", "c")


def test_what_a_worker_said_of_a_generation_that_it_has_left_means_nothing():
    lead = shrunk("a", "b")
    assert lead.meeting_failed("b", 1, "told anew to a new leader") == []
    assert lead.meeting_failed("c", 1, "has left") == []


def test_a_change_that_is_no_longer_wanted_is_not_begun_by_a_request_that_comes_late():
    lead = leader("a", "b", "c")
    lead.withdraw(7, "late", 1)
    assert kinds(lead.adjust(adjust("ab", ""))) == [("driver", "adjust_failed")]
    assert lead.adjustment is None


def test_a_leader_does_not_repeat_what_it_has_announced_itself():
    lead = leader("a", "b", "c", stops_first=True)
    lead.adjust(adjust("ab", ""))
    for worker in "ab":
        assert lead.built(worker, 2) == []
    assert kinds(lead.built("c", 2)) == [(worker, "announce") for worker in "abc"]
    assert lead.switched("a", 2, Membership(("a", "b"), 12), 7) == []

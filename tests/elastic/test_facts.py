"""What a worker tells the leaders that follow."""

from systems.elastic.wire.messages import Deaths, GroupBuilt, HaltedAt, MeetingFailed, StoppedFor
from systems.elastic.worker.resend_buffer import ResendBuffer


def test_the_last_of_each_kind_is_told():
    facts = ResendBuffer()
    for generation in (2, 3):
        facts.note(GroupBuilt(generation=generation))
    facts.note(StoppedFor(generation=1, change_id=2, step=3, goes_on=False))
    facts.forget(StoppedFor)
    facts.forget(HaltedAt)
    assert list(facts) == [GroupBuilt(generation=3)]


def test_the_dead_add_up_and_those_that_died_before_the_generation_are_named():
    facts = ResendBuffer()
    assert facts.lost(["a"]) == Deaths(workers=("a",), parted=())
    facts.entered(4, ["b", "c", "d"])
    assert facts.lost(["b", "a"]) == Deaths(workers=("a", "b"), parted=("a",))
    facts.entered(5, ["b", "c"])
    assert list(facts) == [Deaths(workers=("a", "b"), parted=("a",))], (
        "a member that died is to be recovered from"
    )


def test_a_failed_meeting_is_told_until_the_worker_works_in_a_later_generation():
    facts = ResendBuffer()
    failed = MeetingFailed(generation=4, reason="a peer has gone")
    facts.note(failed)
    facts.entered(4, ["a"])
    assert list(facts) == [failed], "it may have been lost in the next step"
    facts.entered(5, ["a"])
    assert list(facts) == []

"""A job that can never start is told under every scheduler; the replay ends."""

import pytest

from harness.contracts.decision import Decision, Grant
from harness.replay import ReplayError
from harness.replay.endless import MOST_IDLE_WAKES
from harness.trace.model.events import TraceEvent, TraceEventKind
from tests.replay.worlds import Driver, cluster, engine, job, profile
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.world import Recorder, built, run, shipped

GONE = TraceEvent(5.0, TraceEventKind.SLOTS_DOWN, (3,))
LATE = TraceEvent(1e7, TraceEventKind.SLOTS_UP, (3,))


def replayed(scheduler, *events, **wide):
    """A job that needs all four slots, one of which goes down, next to a job that needs one."""
    where, known = cluster(), profile()
    jobs = [job("wide", 0.0, 4, 400.0, **wide), job("small", 6.0, 1, 10.0)]
    return run(jobs, scheduler, where, chaos=engine(where, known, events=events))


@pytest.mark.parametrize("wide", [{"elastic": False}, {"min_slots": 4}])
@pytest.mark.parametrize("name", shipped("scheduler"))
def test_a_job_that_wants_a_slot_which_is_gone_for_good_is_named(name, wide):
    with pytest.raises(ReplayError, match="for ever") as caught:
        replayed(Recorder(built("scheduler", name)), GONE, **wide)
    assert "wide, which requests 4 slots" in str(caught.value)
    assert "1 of 4 slots are down and never come up again." in str(caught.value)


@pytest.mark.parametrize("name", ["gandiva", "themis", "chronus", "shockwave", "hu_greedy"])
def test_a_slot_that_comes_back_after_many_wake_ups_is_waited_for(name):
    scheduler = Recorder(built("scheduler", name))
    records, _ = replayed(scheduler, GONE, LATE, elastic=False)
    assert len(scheduler.views) > 2 * MOST_IDLE_WAKES
    assert {record.state for record in records.jobs} == {"finished"}


def test_a_scheduler_may_leave_the_cluster_empty_for_some_rounds():
    def patient(view):
        if view.time_s < MOST_IDLE_WAKES - 1:
            return Decision(wake_s=view.time_s + 1.0)
        return Decision({"a": Grant(1)} if view.jobs and view.jobs["a"].grant is None else {})

    records, _ = run([job("a", work=10.0)], Driver(patient))
    assert [record.first_start_s for record in records.jobs] == [MOST_IDLE_WAKES - 1]


def test_under_an_engine_whose_changes_take_time_the_same_is_told():
    chaos = ChaosEngine(cluster(), 0, max_delay_s=3, outages=((3, 5, 10**9),))
    chaos._heap = [entry for entry in chaos._heap if entry[3] != "up"]
    with pytest.raises(ReplayError, match=r"started nothing\. 1 of 4 slots"):
        run([job("wide", 0.0, 4, 400.0)], built("scheduler", "gandiva"), chaos=chaos)

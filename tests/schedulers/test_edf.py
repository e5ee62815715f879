"""Earliest deadline first, worked by hand."""

from __future__ import annotations

import pytest

from harness.contracts.decision import Grant, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from systems.schedulers.edf import Edf
from tests.replay.worlds import cluster, job
from tests.schedulers.curves import curve_profile
from tests.schedulers.world import deadline_job, periods, run

# Throughput that rises to 3 slots, dips at 4, and is best at 6.
CURVE = {1: 10.0, 2: 18.0, 3: 24.0, 4: 20.0, 5: 24.0, 6: 30.0}


def test_takes_as_many_slots_as_still_raise_throughput():
    """8 slots: the earlier deadline takes 6; of the 2 left the other can use both.

    Were there 5 left, it would take 3: 4 is a dip and 5 is no better than 3.
    """
    known = curve_profile({"net": CURVE})
    jobs = [
        job("late", 0, 1, 180, workload="net", deadline_s=99, deadline_kind="hard"),
        job("soon", 0, 1, 300, workload="net", deadline_s=50, deadline_kind="hard"),
    ]
    records, recorder = run(jobs, Edf(), cluster(1, 8), known=known)
    assert recorder.decisions[0].changes == {"soon": Grant(6), "late": Grant(2)}
    # soon: 300 samples at 30/s; then late: 180 samples done at 18/s, all of them by 10 s.
    assert periods(records, "soon") == [(0, 10, 6)]
    assert periods(records, "late") == [(0, 10, 2)]
    _, narrow = run(jobs, Edf(), cluster(1, 5), known=known)
    assert narrow.decisions[0].changes == {"soon": Grant(3), "late": Grant(2)}


def test_an_earlier_deadline_shrinks_and_suspends_the_others():
    """4 slots, T(w) = w. b leaves nothing for a; both are served again by deadline."""
    jobs = [
        deadline_job("a", 0, 1, 40, 100),
        deadline_job("b", 5, 1, 12, 20),
    ]
    records, recorder = run(jobs, Edf(), cluster(1, 4))
    assert periods(records, "a") == [(0, 5, 4), (8, 13, 4)]
    assert periods(records, "b") == [(5, 8, 4)]
    assert recorder.decisions[1].changes == {"a": Suspend(), "b": Grant(4)}


def test_slot_range_bounds_the_size():
    jobs = [
        deadline_job("a", 0, 1, 40, 10),
        job("b", 0, 1, 40, min_slots=2, max_slots=2),
        job("c", 0, 1, 40, min_slots=3),
    ]
    limited = [job("d", 0, 1, 30, max_slots=3, deadline_s=5, deadline_kind="hard"), *jobs[1:]]
    _, recorder = run(limited, Edf(), cluster(1, 5))
    assert recorder.decisions[0].changes == {"d": Grant(3), "b": Grant(2)}
    # c needs 3 of the 2 that are left until d has ended
    assert all("c" not in decision.changes for decision in recorder.decisions[:1])


def test_without_preemption_running_jobs_keep_what_they_have_and_may_grow():
    jobs = [
        deadline_job("a", 0, 1, 40, 100),
        deadline_job("b", 5, 1, 12, 20),
    ]
    records, recorder = run(jobs, Edf(preemptive=False), cluster(1, 4))
    assert periods(records, "a") == [(0, 10, 4)]
    assert periods(records, "b") == [(10, 13, 4)]
    assert not any(
        isinstance(change, Suspend) for d in recorder.decisions for change in d.changes.values()
    )
    # inelastic neighbour ends at 5 s; the running job grows from 2 to 4
    jobs = [job("fixed", 0, 2, 10, elastic=False), job("grows", 0, 1, 30)]
    records, _ = run(jobs, Edf(preemptive=False), cluster(1, 4))
    assert periods(records, "grows") == [(0, 5, 2), (5, 10, 4)]


def test_without_preemption_what_running_jobs_keep_is_not_counted_twice():
    """a keeps its 2 of 4 slots; b, with the later deadline, has the other 2 at once."""
    jobs = [
        job("a", 0, 1, 40, max_slots=2, deadline_s=30, deadline_kind="hard"),
        deadline_job("b", 5, 1, 12, 50),
    ]
    records, _ = run(jobs, Edf(preemptive=False), cluster(1, 4))
    assert periods(records, "a") == [(0, 20, 2)]
    assert periods(records, "b") == [(5, 11, 2)]


def test_gang_sizes_no_job_and_skips_what_does_not_fit():
    """4 slots: soon (3) runs, next (2) does not fit beside it, last (1) does."""
    jobs = [
        job("last", 0, 1, 30),
        deadline_job("soon", 0, 3, 30, 15),
        deadline_job("next", 0, 2, 20, 40),
    ]
    records, recorder = run(jobs, Edf(elastic=False), cluster(1, 4))
    assert recorder.decisions[0].changes == {"soon": Grant(3), "last": Grant(1)}
    assert periods(records, "next") == [(10, 20, 2)]
    assert periods(records, "last") == [(0, 30, 1)]


def test_jobs_without_deadline_come_last_by_arrival():
    jobs = [job("y", 0, 4, 4), job("x", 1, 4, 4), deadline_job("d", 1, 4, 4, 1000)]
    records, _ = run(jobs, Edf(elastic=False), cluster(1, 4))
    finished = sorted(records.jobs, key=lambda record: record.finish_s)
    assert [record.job_id for record in finished] == ["y", "d", "x"]


@pytest.mark.parametrize(
    ("options", "needs", "requires"),
    [
        (
            {},
            {Knowledge.DEADLINE, Knowledge.THROUGHPUT},
            {Requirement.SUSPEND, Requirement.RESCALE},
        ),
        ({"elastic": False}, {Knowledge.DEADLINE}, {Requirement.SUSPEND}),
        ({"elastic": False, "preemptive": False}, {Knowledge.DEADLINE}, set()),
    ],
)
def test_declares_what_its_options_need(options, needs, requires):
    scheduler = Edf(**options)
    assert (scheduler.needs, scheduler.requires) == (needs, requires)

"""Uniform sharing of hosts, worked by hand."""

from __future__ import annotations

from harness.contracts.decision import Grant, Suspend
from harness.contracts.event import Event, EventKind
from harness.contracts.job_state import JobState
from harness.contracts.scheduler import Knowledge
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.uniform import Uniform
from tests.replay.worlds import cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.curves import curve_profile
from tests.schedulers.world import periods, run

LINEAR = {w: float(w) for w in range(1, 9)}


def sizes(view):
    return {job_id: one.grant.num_slots for job_id, one in view.jobs.items() if one.grant}


def test_the_synthetic_workload_of_the_edl_paper():
    """4 hosts of 8; a job every 30 s, 16 jobs, none leaves: 8, then 4, then 3 and 2 each."""
    jobs = [job(f"{i:02d}", 30.0 * i, 4, 10**6) for i in range(16)]
    records, recorder = run(jobs, Uniform(), cluster(4, 8))
    by_arrival = {view.time_s: view for view in recorder.views}
    assert sizes(by_arrival[120.0]) == dict.fromkeys(["00", "01", "02", "03"], 8)
    # Two a host from the eighth on; the ninth makes three on the first host: 3, 3 and 2.
    assert set(sizes(by_arrival[240.0]).values()) == {4}
    assert sizes(by_arrival[270.0]) == {
        **dict.fromkeys(["01", "02", "03", "05", "06", "07"], 4),
        "00": 3,
        "04": 3,
        "08": 2,
    }
    at_the_end = {
        grant.job_id: (grant.slots[0] // 8, len(grant.slots))
        for grant in records.grants
        if grant.start_s <= 460.0 < grant.end_s
    }
    assert at_the_end == {f"{i:02d}": (i % 4, 2) for i in range(16)}


def test_exact_slots_newcomer_takes_the_tail_of_its_neighbour():
    jobs = [job("a", 0, 1, 100), job("b", 5, 1, 15)]
    _, recorder = run(jobs, Uniform(), cluster(1, 4))
    assert recorder.decisions[0].changes == {"a": Grant(4, slots=(0, 1, 2, 3))}
    assert recorder.decisions[1].changes == {
        "a": Grant(2, slots=(0, 1)),
        "b": Grant(2, slots=(2, 3)),
    }
    # b: 15 samples at 2/s, done at 12.5 s; then a has all four again, its own first.
    assert recorder.views[2].time_s == 12.5
    assert recorder.decisions[2].changes == {"a": Grant(4, slots=(0, 1, 2, 3))}


def test_the_remainder_goes_to_the_highest_gain():
    """3 slots, two jobs: from 1 to 2 slots steep gains 90%, flat 20%."""
    known = curve_profile({"steep": {1: 10.0, 2: 19.0}, "flat": {1: 10.0, 2: 12.0}})
    jobs = [job("f", 0, 1, 10**4, workload="flat"), job("s", 0, 1, 10**4, workload="steep")]
    _, recorder = run(jobs, Uniform(), cluster(1, 3), known=known)
    assert {i: g.num_slots for i, g in recorder.decisions[0].changes.items()} == {"f": 1, "s": 2}
    # Not knowing the curves, the earlier one has it.
    blind = Uniform(use_throughput=False)
    assert blind.needs == frozenset()
    assert Uniform().needs == {Knowledge.THROUGHPUT}
    _, recorder = run(jobs, blind, cluster(1, 3), known=known)
    assert {i: g.num_slots for i, g in recorder.decisions[0].changes.items()} == {"f": 2, "s": 1}


def test_a_job_stops_growing_where_its_throughput_falls_and_leaves_the_rest():
    """8 slots, two jobs: one peaks at 2, so the other has 6; alone, it leaves 6 idle."""
    known = curve_profile({"peak": {1: 10.0, 2: 15.0, 3: 14.0}, "line": LINEAR})
    jobs = [job("p", 0, 1, 300, workload="peak"), job("l", 5, 1, 30, workload="line")]
    records, _ = run(jobs, Uniform(), cluster(1, 8), known=known)
    assert periods(records, "p") == [(0, 20, 2)]
    assert periods(records, "l") == [(5, 10, 6)]


def test_full_hosts_queue_newcomers_first_in_first_out():
    """2 hosts of 2, four jobs: full. e and f wait; e goes where first a job leaves."""
    jobs = [job(name, 0, 1, 20) for name in "abc"] + [job("d", 0, 1, 10)]
    jobs += [job("e", 1, 1, 5), job("f", 2, 1, 5)]
    records, _ = run(jobs, Uniform(), cluster(2, 2))
    assert periods(records, "d") == [(0, 10, 1)]
    assert periods(records, "e")[0] == (10, 15, 1)
    assert periods(records, "f")[0] == (15, 20, 1)


def test_slot_ranges_and_jobs_that_are_not_elastic():
    """One host of 8: fixed holds its 3, low at most 2; big, at least 2, has what is left."""
    jobs = [
        job("fixed", 0, 3, 10**4, elastic=False),
        job("low", 0, 4, 10**4, max_slots=2),
        job("big", 0, 4, 10**4, min_slots=2),
    ]
    _, recorder = run(jobs, Uniform(), cluster(1, 8))
    sizes = {i: g.num_slots for i, g in recorder.decisions[0].changes.items()}
    assert sizes == {"fixed": 3, "low": 2, "big": 3}


def test_a_newcomer_goes_where_its_least_size_fits_even_if_more_jobs_are_there():
    """Host 0 holds one job of 4 that cannot shrink; host 1 holds two that can."""
    jobs = [
        job("rigid", 0, 4, 10**4, elastic=False),
        job("x", 1, 1, 10**4),
        job("y", 2, 1, 10**4),
    ]
    _, recorder = run(jobs, Uniform(), cluster(2, 4))
    assert recorder.decisions[2].changes == {
        "x": Grant(2, slots=(4, 5)),
        "y": Grant(2, slots=(6, 7)),
    }


def test_a_job_that_no_host_can_hold_is_refused():
    jobs = [job("wide", 0, 6, 10, min_slots=5), job("a", 0, 1, 8)]
    records, _ = run(jobs, Uniform(), cluster(2, 4))
    reasons = {record.job_id: (record.state, record.reason) for record in records.jobs}
    assert reasons["wide"][0] == "refused"
    assert "keeps a job on one host, and the largest has 4" in reasons["wide"][1]
    assert reasons["a"][0] == "finished"


def test_a_lost_slot_sends_its_job_to_another_host_and_the_rest_share():
    """Hosts of 2. Slot 0 fails: a moves to host 1 beside b; when it is back, c takes host 0."""
    where = cluster(2, 2)
    chaos = ChaosEngine(where, 0, outages=((0, 4, 20), (1, 4, 20)))
    jobs = [job("a", 0, 1, 100), job("b", 0, 1, 100), job("c", 25, 1, 10)]
    records, recorder = run(jobs, Uniform(), where, chaos=chaos)
    assert periods(records, "a") == [(0, 4, 2), (4, 96, 1)]
    at_4 = next(d for v, d in zip(recorder.views, recorder.decisions, strict=True) if v.time_s == 4)
    assert at_4.changes == {"b": Grant(1, slots=(2,)), "a": Grant(1, slots=(3,))}
    at_25 = next(
        d for v, d in zip(recorder.views, recorder.decisions, strict=True) if v.time_s == 25
    )
    assert at_25.changes == {"c": Grant(2, slots=(0, 1))}


def seen(job_id, arrival_s, grant=None, slots=()):
    state = JobState.RUNNING if slots else JobState.PENDING
    spec = job(job_id, arrival_s)
    return JobView(spec, state, grant, slots, arrival_s, 0.0, 0.0, 0.0, 0.0, arrival_s)


def view(where, jobs, *news, down=()):
    """A view with these jobs; ``news`` are (kind, job id) pairs."""
    return ClusterView(
        time_s=1.0,
        cluster=where,
        jobs={one.job_id: one for one in jobs},
        news=[
            Event(1.0, kind, slot=who) if isinstance(who, int) else Event(1.0, kind, who)
            for kind, who in news
        ],
        down_slots=frozenset(down),
        num_granted=sum(one.grant.num_slots for one in jobs if one.grant),
    )


def test_after_a_failed_change_a_contested_slot_stays_with_its_holder():
    """a was to give slot 3 to b, but its change fails just when d ends: a keeps all four."""
    where = cluster(1, 8)
    scheduler = Uniform(use_throughput=False)
    arrived = (EventKind.ARRIVAL, "a"), (EventKind.ARRIVAL, "d")
    first = scheduler.decide(view(where, [seen("a", 0), seen("d", 0)], *arrived)).changes
    assert first == {"a": Grant(4, slots=(0, 1, 2, 3)), "d": Grant(4, slots=(4, 5, 6, 7))}
    a, d = (seen(i, 0, first[i], first[i].slots) for i in "ad")
    second = scheduler.decide(view(where, [a, d, seen("b", 1)], (EventKind.ARRIVAL, "b"))).changes
    assert second == {
        "a": Grant(3, slots=(0, 1, 2)),
        "d": Grant(3, slots=(4, 5, 6)),
        "b": Grant(2, slots=(3, 7)),
    }
    back = seen("a", 0, Grant(4), (0, 1, 2, 3))
    news = (EventKind.JOB_FINISHED, "d"), (EventKind.CHANGE_FAILED, "a")
    third = scheduler.decide(view(where, [back, seen("b", 1, second["b"])], *news)).changes
    assert third == {"b": Grant(4, slots=(7, 4, 5, 6))}


def three_promises():
    """One host of 3: a holds everything and is giving slots 1 and 2 to b and c."""
    where = cluster(1, 3)
    scheduler = Uniform(use_throughput=False)
    first = scheduler.decide(view(where, [seen("a", 0)], (EventKind.ARRIVAL, "a"))).changes
    a = seen("a", 0, first["a"], (0, 1, 2))
    news = (EventKind.ARRIVAL, "b"), (EventKind.ARRIVAL, "c")
    grants = scheduler.decide(view(where, [a, seen("b", 1), seen("c", 1)], *news)).changes
    assert {i: grant.slots for i, grant in grants.items()} == {"a": (0,), "b": (1,), "c": (2,)}
    return where, scheduler, [seen("a", 0), seen("b", 1, grants["b"]), seen("c", 1, grants["c"])]


def test_a_promised_slot_that_goes_down_is_replaced():
    where, scheduler, jobs = three_promises()
    news = (EventKind.SLOT_DOWN, 2), (EventKind.GRANT_LOST, "a")
    changes = scheduler.decide(view(where, jobs, *news, down=[2])).changes
    assert changes == {"c": Grant(1, slots=(0,))}  # a waits: b and c fill the host


def test_promises_that_have_become_impossible_are_taken_back_from_the_last():
    where, scheduler, jobs = three_promises()
    news = (EventKind.SLOT_DOWN, 1), (EventKind.SLOT_DOWN, 2), (EventKind.GRANT_LOST, "a")
    changes = scheduler.decide(view(where, jobs, *news, down=[1, 2])).changes
    assert changes == {"c": Suspend(), "b": Grant(1, slots=(0,))}

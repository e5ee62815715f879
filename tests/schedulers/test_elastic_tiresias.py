"""Elastic-Tiresias: Algorithm 1 worked by hand, and equal to a version that remembers nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Decision, Grant, Suspend
from harness.contracts.scheduler import Knowledge
from systems.schedulers.elastic_tiresias import ElasticTiresias
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.curves import curve_profile
from tests.schedulers.naive_elastic_tiresias import NaiveElasticTiresias
from tests.schedulers.world import periods, run

CURVES = {
    "bent": {1: 10.0, 2: 18.0, 3: 24.0, 4: 28.0, 6: 32.0},
    "steep": {1: 10.0, 2: 19.0, 4: 36.0, 6: 50.0},
    "peak": {1: 10.0, 2: 15.0, 3: 13.0},
    "dips": {1: 4.0, 2: 7.0, 3: 9.0, 4: 8.0, 6: 12.0},
}
KNOWN = curve_profile(CURVES)


def at(recorder, time_s):
    return next(
        decision.changes
        for view, decision in zip(recorder.views, recorder.decisions, strict=True)
        if view.time_s == time_s
    )


def test_compaction_worked_by_hand():
    """4 slots, one limit at 4, N = 0, r = 0.5; a, b and c each request 2 and arrive together.

    a and b start; c waits, and nobody may give slots, since all are in group 0. At 2 s a and b
    have had 4 and drop; the plan then is c, a, and b is out. But b waits, and a may keep 1 of
    its 2: one slot is worth 10/10 = 1 to b and the second 8/10 to a, a gain of 0.2. So a gives
    slot 1, on which b goes on.
    """
    jobs = [job(name, 0, 2, 400, workload="bent") for name in "abc"]
    scheduler = ElasticTiresias([4], compact_above=0)
    records, recorder = run(jobs, scheduler, cluster(1, 4), known=KNOWN)
    assert at(recorder, 0) == {"a": Grant(2, slots=(0, 1)), "b": Grant(2, slots=(2, 3))}
    assert at(recorder, 2) == {
        "a": Grant(1, slots=(0,)),
        "b": Grant(1, slots=(1,)),
        "c": Grant(2, slots=(2, 3)),
    }
    # c: 18/s, done at 24.2 s. Its two slots go to a and b, one each; then they end together.
    assert periods(records, "c") == [(2, pytest.approx(2 + 400 / 18), 2)]
    assert [size for *_, size in periods(records, "a")] == [2, 1, 2]
    assert [size for *_, size in periods(records, "b")] == [2, 1, 2]


def test_nothing_is_compacted_where_nothing_is_gained():
    """As above, but each slot of a line is worth as much as the last: b waits."""
    jobs = [job(name, 0, 2, 40) for name in "abc"]
    _, recorder = run(jobs, ElasticTiresias([4], compact_above=0), cluster(1, 4))
    assert at(recorder, 2) == {"b": Suspend(), "c": Grant(2, slots=(2, 3))}


def test_up_to_n_waiting_jobs_nothing_is_adjusted():
    """As above with one job waiting and N = 1: b is suspended, a keeps what it has."""
    jobs = [job(name, 0, 2, 400, workload="bent") for name in "abc"]
    scheduler = ElasticTiresias([4], compact_above=1)
    _, recorder = run(jobs, scheduler, cluster(1, 4), known=KNOWN)
    assert at(recorder, 2) == {"b": Suspend(), "c": Grant(2, slots=(2, 3))}


def test_an_inelastic_job_gives_nothing_and_starts_on_all_it_asks_or_not_at_all():
    """As above: with a inelastic it gives nothing; with b inelastic one slot is no use to it."""
    for rigid in "ab":
        jobs = [job(n, 0, 2, 400, workload="bent", elastic=n != rigid) for n in "abc"]
        scheduler = ElasticTiresias([4], compact_above=0)
        _, recorder = run(jobs, scheduler, cluster(1, 4), known=KNOWN)
        assert at(recorder, 2) == {"b": Suspend(), "c": Grant(2, slots=(2, 3))}


def test_an_evicted_job_goes_on_with_what_is_left():
    """4 slots, limit 8; a (4) drops at 2 s, and b, which asked for 2 at 1 s, takes two of its
    slots. a would have to wait, but two slots are free: half of what it requested."""
    jobs = [job("a", 0, 4, 400, workload="bent"), job("b", 1, 2, 18, workload="bent")]
    scheduler = ElasticTiresias([8], compact_above=0)
    _, recorder = run(jobs, scheduler, cluster(1, 4), known=KNOWN)
    assert at(recorder, 2) == {"b": Grant(2, slots=(0, 1)), "a": Grant(2, slots=(2, 3))}
    assert at(recorder, 3) == {"a": Grant(4, slots=(2, 3, 0, 1))}  # b has ended: expansion


def test_expansion_goes_to_the_greatest_relative_gain_and_stops_at_none():
    """6 slots; three jobs ask for 1. Gains by the second slot: bent 0.8, steep 0.9, peak 0.5; by
    the third: bent 0.33, steep 8.5/19 = 0.45, peak below 0. Three free slots: steep, bent, peak.
    Alone, peak would stop at 2 of 6; a job that is not elastic stays."""
    jobs = [job(name, 0, 1, 1000, workload=name) for name in ("bent", "steep", "peak")]
    _, recorder = run(jobs, ElasticTiresias(), cluster(1, 6), known=KNOWN)
    sizes = {i: grant.num_slots for i, grant in recorder.decisions[0].changes.items()}
    assert sizes == {"bent": 2, "steep": 2, "peak": 2}
    alone = [job("peak", 0, 1, 100, workload="peak"), job("rigid", 0, 1, 100, elastic=False)]
    _, recorder = run(alone, ElasticTiresias(), cluster(1, 6), known=KNOWN)
    sizes = {i: grant.num_slots for i, grant in recorder.decisions[0].changes.items()}
    assert sizes == {"peak": 2, "rigid": 1}


def test_slots_above_the_request_are_taken_back_before_anybody_is_suspended():
    """6 slots; bent and steep ask for 1 and grow to 3 each (gains 0.8, 0.9, then 0.33, 0.45). A
    newcomer asks for 3: the least gains are bent's third (0.33) and steep's third (0.45), then
    bent's second (0.8)."""
    jobs = [job(name, 0, 1, 1000, workload=name) for name in ("bent", "steep")]
    jobs.append(job("new", 5, 3, 10, elastic=False))
    records, recorder = run(jobs, ElasticTiresias(), cluster(1, 6), known=KNOWN)
    assert {i: one.num_slots for i, one in at(recorder, 0).items()} == {"bent": 3, "steep": 3}
    changes = at(recorder, 5)
    assert {i: one.num_slots for i, one in changes.items()} == {"bent": 1, "steep": 2, "new": 3}
    assert list(changes)[-1] == "new"
    assert sum(record.num_preemptions for record in records.jobs) == 0


def test_its_service_counts_the_slots_it_really_has():
    """A job that asked for 1 and grew to 4 uses up 40 slot-seconds in 10 s."""
    _, recorder = run([job("a", 0, 1, 400)], ElasticTiresias([40]), cluster(1, 4))
    assert [view.time_s for view in recorder.views] == [0.0, 10.0, 100.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"compact_above": -1}, "compact_above"), ({"least_share": 1.5}, "least_share")],
)
def test_parameters_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        ElasticTiresias(**options)


class Compared:
    """The fast scheduler, checked against the naive one on every view it gets."""

    needs = frozenset({Knowledge.THROUGHPUT})
    requires = ElasticTiresias.requires
    wants_progress = False

    def __init__(self, *options):
        self.fast = ElasticTiresias(*options)
        self.naive = NaiveElasticTiresias(*options)
        self.num_compacted = 0
        self.last_s = 0.0

    def decide(self, view) -> Decision:
        if view.time_s > self.last_s:  # changes are free here, so all promises have come true
            for one in view.jobs.values():
                assert one.grant is None or set(one.grant.slots or one.slots) == set(one.slots)
        self.last_s = view.time_s
        fast, naive = self.fast.decide(view), self.naive.decide(view)
        assert dict(fast.changes) == dict(naive.changes), view.time_s
        self.num_compacted += sum(
            isinstance(change, Grant) and change.num_slots < view.jobs[job_id].spec.requested_slots
            for job_id, change in fast.changes.items()
        )
        return fast


JOBS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from([1, 1, 2, 2, 3, 4, 6]),
        st.integers(1, 40),
        st.sampled_from([*CURVES, "recorded"]),
        st.booleans(),
        st.sampled_from([None, None, 6]),
    ),
    min_size=1,
    max_size=12,
)
OPTIONS = st.tuples(
    st.sampled_from([(7,), (5, 30), (1, 2, 60)]),
    st.sampled_from([None, 1.5]),
    st.sampled_from([0, 0, 1, 3]),
    st.sampled_from([0.3, 0.5, 1.0]),
)


def made(rows):
    return [
        job(f"{i:02d}", arrival, slots, 10 * slots * s, workload=w, elastic=elastic, max_slots=most)
        for i, (arrival, slots, s, w, elastic, most) in enumerate(rows)
    ]


@settings(deadline=None, max_examples=examples(150))
@given(JOBS, OPTIONS, st.sampled_from([(2, 3), (3, 2), (1, 6), (2, 4)]))
def test_equal_to_a_version_that_remembers_nothing(rows, options, hosts):
    records, _ = run(made(rows), Compared(*options), cluster(*hosts), known=KNOWN)
    assert {record.state for record in records.jobs} == {"finished"}


def test_the_random_cases_compact():
    """Lest the comparison be about nothing: a full cluster under it compacts many times."""
    rows = [(i, 1 + i % 4, 20, ("bent", "steep", "dips")[i % 3], True, None) for i in range(12)]
    compared = Compared((5, 30), None, 0, 0.5)
    run(made(rows), compared, cluster(2, 3), known=KNOWN)
    assert compared.num_compacted > 10


class Watched(ElasticTiresias):
    """Looks after each decision whether the books agree with each other."""

    def decide(self, view):
        decision = super().decide(view)
        claims, jobs = self._claims, self._groups.jobs
        granted = {i: one.grant for i, one in view.jobs.items()} | dict(decision.changes)
        promised = []
        for job_id, entry in jobs.items():
            grant = granted[job_id]
            has_slots = isinstance(grant, Grant)
            assert entry.planned == has_slots
            assert len(claims.of(job_id)) == (grant.num_slots if has_slots else 0)
            assert not has_slots or entry.num_slots == grant.num_slots
            promised += claims.of(job_id)
        assert len(promised) == len(set(promised))
        assert not view.down_slots & set(promised)
        assert claims.num_free == view.num_usable - len(promised)
        return decision


@settings(deadline=None, max_examples=examples(150))
@given(
    JOBS,
    OPTIONS,
    st.integers(0, 3),
    st.sampled_from([0.0, 0.2]),
    st.dictionaries(st.integers(0, 5), st.tuples(st.integers(1, 40), st.integers(1, 30))),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=3),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_claims_are_kept_under_delays_failures_and_outages(
    rows, options, max_delay_s, failure_share, outages, deaths, shrinks, seed
):
    where = cluster(2, 3)
    chaos = ChaosEngine(
        where,
        seed,
        max_delay_s=max_delay_s,
        failure_share=failure_share,
        outages=tuple((slot, start, start + length) for slot, (start, length) in outages.items()),
        deaths=tuple(deaths),
        shrinks=shrinks,
    )
    records, _ = run(made(rows), Watched(*options), where, known=KNOWN, chaos=chaos)
    assert {record.state for record in records.jobs} == {"finished"}

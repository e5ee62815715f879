"""A placement that moves jobs: what it costs them, and that nobody is left waiting."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Decision, Grant, Suspend
from harness.replay import replay
from harness.results.records import RunRecords
from systems.placements.buddy import Buddy
from systems.placements.migrating_buddy import MigratingBuddy
from tests.examples import examples
from tests.replay.worlds import Driver, cluster, job, profile, simulate
from tests.schedulers.chaos import ChaosEngine

FOUR = [job("a", work=100), job("b", work=10), job("c", work=100), job("d", work=20)]
"""One slot each; b ends at 10 s and d at 20 s, which leaves slots 1 and 3."""
WIDE = job("e", arrival_s=1.0, slots=2, work=40)


def requests(view):
    """Every job what it requests, as soon as so many slots are free."""
    free, changes = view.num_free, {}
    for known in sorted(view.jobs.values(), key=lambda j: j.spec.order):
        if known.grant is None and known.spec.requested_slots <= free:
            changes[known.job_id] = Grant(known.spec.requested_slots)
            free -= known.spec.requested_slots
    return Decision(changes)


def test_a_job_moves_so_that_another_has_its_block_and_pays_for_it():
    """Every change takes 2 s of preparation and 3 s of standing still, so jobs that start at 0 s
    train from 5 s on. At 25 s b and d have ended and e is granted their two slots. a and c are each
    alone in a block; a, in the first, goes to slot 3 and is there at 30 s. Then e starts, and
    trains from 35 s on, 2 samples a second."""
    costs = {"preparation_s": 2.0, "pause_s": 3.0}
    jobs = [*FOUR, WIDE]
    records = simulate(jobs, Driver(requests), costs=costs, placement=MigratingBuddy())
    (move,) = [change for change in records.changes if change.kind == "migrate"]
    assert (move.job_id, move.requested_s, move.ended_s) == ("a", 25.0, 30.0)
    assert (move.from_slots, move.to_slots, move.outcome) == ((0,), (3,), "done")
    assert (move.stopping_time_s, move.samples_lost) == (3.0, 3.0)
    by_id = {record.job_id: record for record in records.jobs}
    assert (by_id["a"].finish_s, by_id["a"].num_rescales) == (5.0 + 100.0 + 3.0, 1)
    assert (by_id["c"].finish_s, by_id["c"].num_rescales) == (5.0 + 100.0, 0)
    (grant,) = [grant for grant in records.grants if grant.job_id == "e" and grant.start_s >= 35.0]
    assert (grant.start_s, grant.end_s, grant.slots) == (35.0, 55.0, (0, 1))


def test_without_migration_the_job_is_spread():
    records = simulate([*FOUR, WIDE], Driver(requests), placement=Buddy())
    assert {grant.slots for grant in records.grants if grant.job_id == "e"} == {(1, 3)}
    assert not [change for change in records.changes if change.kind == "migrate"]


def erratic(seed: int):
    """Grants and resizes at random, in powers of two, suspends at random."""
    rng = random.Random(seed)

    def rule(view):
        free, changes = view.num_free, {}
        for known in sorted(view.jobs.values(), key=lambda j: j.spec.order):
            roll = rng.random()
            held = known.grant.num_slots if known.grant else 0
            if held and roll < 0.15:
                changes[known.job_id] = Suspend()
                free += held
            elif roll < 0.7 and (size := 1 << rng.randint(0, 3)) <= free + held:
                changes[known.job_id] = Grant(size)
                free += held - size
        return Decision(changes, view.time_s + rng.randint(1, 20))

    return Driver(rule)


JOBS = st.lists(st.tuples(st.integers(0, 100), st.integers(1, 600)), min_size=1, max_size=12).map(
    lambda rows: [job(f"{i:02d}", at, 1, work) for i, (at, work) in enumerate(rows)]
)


def is_block(slots: tuple[int, ...]) -> bool:
    first, size = min(slots), len(slots)
    return first % size == 0 and {*slots} == {*range(first, first + size)}


def assert_books_balance(records: RunRecords, num_jobs: int) -> None:
    """Every job ends, and no slot is held twice at once."""
    assert [record.state for record in records.jobs] == ["finished"] * num_jobs
    edges = sorted(
        [(g.start_s, 1, slot) for g in records.grants for slot in g.slots]
        + [(g.end_s, 0, slot) for g in records.grants for slot in g.slots]
    )
    held: set[int] = set()
    for _, begins, slot in edges:
        assert (slot not in held) == bool(begins)
        held ^= {slot}


@settings(deadline=None, max_examples=examples(80))
@given(JOBS, st.integers(0, 2**16), st.sampled_from([0.0, 1.5]), st.sampled_from([0.0, 3.0]))
def test_every_job_trains_on_a_block_whatever_changes_cost(jobs, seed, preparation_s, pause_s):
    costs = {"preparation_s": preparation_s, "pause_s": pause_s}
    records = simulate(
        jobs, erratic(seed), on=cluster(2, 4), costs=costs, placement=MigratingBuddy()
    )
    assert_books_balance(records, len(jobs))
    reached = [change for change in records.changes if change.outcome == "done" and change.to_slots]
    assert all(is_block(change.to_slots) for change in reached)


@settings(deadline=None, max_examples=examples(60))
@given(
    JOBS,
    st.integers(0, 2**16),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 60), st.integers(1, 30)), max_size=3),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 60)), max_size=3),
    st.booleans(),
)
def test_changes_that_fail_and_slots_that_go_down(jobs, seed, outages, deaths, shrinks):
    where = cluster(2, 4)
    chaos = ChaosEngine(
        where,
        seed,
        max_delay_s=4,
        failure_share=0.2,
        outages=tuple((slot, start, start + length) for slot, start, length in outages),
        deaths=tuple(deaths),
        shrinks=shrinks,
    )
    records = replay(
        jobs=jobs,
        cluster=where,
        scheduler=erratic(seed),
        placement=MigratingBuddy(),
        engine=chaos,
        profile=profile(),
    )
    assert_books_balance(records, len(jobs))

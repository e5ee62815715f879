"""What holds for any trace, any scheduler and any cost."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Decision, Grant, Suspend
from tests.examples import examples
from tests.replay.worlds import Driver, cluster, job, simulate

NUM_SLOTS = 6


def erratic(seed: int):
    """A scheduler that grants, resizes and suspends at random, but within the rules."""
    rng = random.Random(seed)

    def rule(view):
        free, changes = view.num_free, {}
        for known in sorted(view.jobs.values(), key=lambda j: j.spec.order):
            roll = rng.random()
            held = known.grant.num_slots if known.grant else 0
            if held and roll < 0.2:
                changes[known.job_id] = Suspend()
                free += held
            elif roll < 0.7 and (size := rng.randint(1, 4)) <= free + held:
                changes[known.job_id] = Grant(size)
                free += held - size
        return Decision(changes, view.time_s + rng.randint(1, 20))

    return Driver(rule)


jobs_strategy = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 4), st.integers(1, 500)), min_size=1, max_size=12
)


@settings(deadline=None, max_examples=examples(150))
@given(
    jobs_strategy,
    st.integers(0, 2**16),
    st.sampled_from([0.0, 1.5]),
    st.sampled_from([0.0, 3.0]),
)
def test_books_balance(rows, seed, preparation_s, pause_s):
    jobs = [job(f"{i:02d}", at, slots, work) for i, (at, slots, work) in enumerate(rows)]
    costs = {"preparation_s": preparation_s, "pause_s": pause_s}
    first, second = (
        simulate(jobs, erratic(seed), on=cluster(2, NUM_SLOTS // 2), costs=costs) for _ in range(2)
    )
    assert (first.jobs, first.grants, first.changes) == (
        second.jobs,
        second.grants,
        second.changes,
    )
    assert sorted(record.job_id for record in first.jobs) == [j.job_id for j in jobs]
    for record in first.jobs:
        grants = [grant for grant in first.grants if grant.job_id == record.job_id]
        lengths = [grant.end_s - grant.start_s for grant in grants]
        assert record.state == "finished"
        assert record.samples_done == record.work_samples
        assert record.attained_slot_s == pytest.approx(
            sum(len(g.slots) * s for g, s in zip(grants, lengths, strict=True))
        )
        assert record.executed_s == pytest.approx(sum(lengths))
        # T(1) = 1, so a grant's speedup times its length is the samples it made.
        made = sum(g.speedup * s for g, s in zip(grants, lengths, strict=True))
        assert made == pytest.approx(record.work_samples)
        assert grants[0].start_s == record.first_start_s >= record.arrival_s
        assert grants[-1].end_s == record.finish_s
    edges = sorted(
        [(g.start_s, 1, slot) for g in first.grants for slot in g.slots]
        + [(g.end_s, 0, slot) for g in first.grants for slot in g.slots]
    )
    held: set[int] = set()
    for _, begins, slot in edges:
        assert (slot not in held) == bool(begins)
        held ^= {slot}


@settings(deadline=None, max_examples=examples(60))
@given(jobs_strategy)
def test_gang_fifo_equals_a_naive_simulation_by_seconds(rows):
    """An independent simulator that advances one second at a time, for whole-second work."""
    jobs = [job(f"{i:02d}", at, slots, work * slots) for i, (at, slots, work) in enumerate(rows)]

    def fifo(view):
        free, changes = view.num_free, {}
        waiting = [j for j in view.jobs.values() if j.grant is None]
        for known in sorted(waiting, key=lambda j: j.spec.order):
            if known.spec.requested_slots > free:
                break
            free -= known.spec.requested_slots
            changes[known.job_id] = Grant(known.spec.requested_slots)
        return Decision(changes)

    records = simulate(jobs, Driver(fifo))
    finish: dict[str, float] = {}
    queue = sorted(jobs, key=lambda j: j.order)
    running: dict[str, list[float]] = {}
    now = 0
    while queue or running:
        for job_id in [j for j, (left, _) in running.items() if left == 0]:
            finish[job_id] = now
            del running[job_id]
        while queue and queue[0].arrival_s <= now:
            used = sum(slots for _, slots in running.values())
            if queue[0].requested_slots > 4 - used:
                break
            head = queue.pop(0)
            running[head.job_id] = [
                head.work_samples / head.requested_slots,
                head.requested_slots,
            ]
        for entry in running.values():
            entry[0] -= 1
        now += 1
    assert {record.job_id: record.finish_s for record in records.jobs} == finish

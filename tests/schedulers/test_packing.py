"""Gandiva that packs: pairs by hand, and what holds of packing whatever happens."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.abilities import Abilities
from harness.contracts.decision import Grant
from harness.replay import replay
from systems.placements.consolidated import Consolidated
from systems.schedulers.gandiva import Gandiva
from tests.examples import examples
from tests.replay.test_shared_devices import SHARES, shared
from tests.replay.worlds import cluster, engine, job, profile
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.world import Recorder, periods, run


def packed(jobs, where, scheduler=None, *, chaos=None, **costs):
    """Replay under a Gandiva that packs, with turns of 10 s unless it is given."""
    known = profile(**costs)
    recorder = Recorder(scheduler or Gandiva(10.0, pack_above=1.0))
    records = replay(
        jobs=jobs,
        cluster=where,
        scheduler=recorder,
        placement=Consolidated(),
        engine=chaos or engine(where, known, SHARES),
        profile=known,
    )
    return records, recorder


def held(records, job_id):
    """When a job held which slots."""
    return [(g.start_s, g.end_s, g.slots) for g in records.grants if g.job_id == job_id]


def ends(records):
    return {record.job_id: record.finish_s for record in records.jobs}


def test_two_jobs_share_once_both_have_had_a_turn_alone():
    """One device at 0.6 for each of two. a has it until 10 s, b until 20 s; then a comes back
    beside b. Both have made 10: b needs 30 more, to 70 s; a has 40 by then and is alone."""
    jobs = [job("a", 0, 1, 100), job("b", 5, 1, 40)]
    records, _ = packed(jobs, shared(1, 1))
    assert held(records, "a") == [(0, 10, (0,)), (20, 130, (1,))]
    assert held(records, "b") == [(10, 70, (0,))]
    assert ends(records) == pytest.approx({"b": 70.0, "a": 130.0})


@pytest.mark.parametrize("factor", [0.5, 0.4])
def test_a_pair_that_makes_no_more_than_turns_is_parted_for_good(factor):
    """Together from 20 to 30 s; then b, whose turn was over at 20 s, waits for its next, at 40."""
    jobs = [job("a", 0, 1, 100), job("b", 5, 1, 100)]
    records, _ = packed(jobs, shared(1, 1, (1.0, factor)))
    assert periods(records, "a")[:3] == [(0, 10, 1), (20, 40, 1), (50, 60, 1)]
    assert periods(records, "b")[:3] == [(10, 30, 1), (40, 50, 1), (60, 70, 1)]
    # Both made factor * 10 in the only time that they were together.
    assert max(ends(records).values()) == pytest.approx(200 + 10 * (1 - 2 * factor))


def test_what_is_worth_it_is_an_option():
    """0.6 and 0.6 is not above 1.25; 0.4 and 0.4 is above 0.75."""
    jobs = [job("a", 0, 1, 100), job("b", 5, 1, 100)]
    for factor, above, num_suspended in ((0.6, 1.25, 9), (0.4, 0.75, 1)):
        where = shared(1, 1, (1.0, factor))
        records, _ = packed(jobs, where, Gandiva(10.0, pack_above=above))
        kinds = [change.kind for change in records.changes]
        assert (kinds.count("suspend") <= 1) is (num_suspended == 1)


def test_who_was_to_make_way_moves_beside_another_and_away_when_devices_are_idle():
    """Two devices. At 10 s c has its first turn, on b's device; b goes to a's second slot, since
    the speeds of both alone are known. c ends at 20 s and b moves back: 10 + 6 + 84 each."""
    jobs = [job("a", 0, 1, 100), job("b", 0, 1, 100), job("c", 5, 1, 10)]
    records, recorder = packed(jobs, shared(1, 2))
    assert held(records, "a") == [(0, 104, (0,))]
    assert held(records, "c") == [(10, 20, (2,))]
    assert held(records, "b") == [(0, 10, (2,)), (10, 20, (1,)), (20, 104, (2,))]
    assert ends(records) == pytest.approx({"c": 20.0, "a": 104.0, "b": 104.0})
    assert [change.kind for change in records.changes].count("suspend") == 0
    shares = [
        grant.share
        for decision in recorder.decisions
        for job_id, grant in decision.changes.items()
        if job_id == "b" and isinstance(grant, Grant)
    ]
    assert shares == [1.0, 0.5, 1.0]


def test_only_jobs_of_one_size_share_and_on_the_same_devices():
    """wide and its like take both devices; narrow fits beside neither, and has turns alone."""
    jobs = [job("wide", 0, 2, 200), job("like", 1, 2, 200), job("narrow", 2, 1, 60)]
    records, _ = packed(jobs, shared(1, 2))
    where = shared(1, 2)
    for job_id, others in (("narrow", ("wide", "like")), ("wide", ("narrow",))):
        for start_s, end_s, slots in held(records, job_id):
            mine = {where.device_of[slot] for slot in slots}
            for other in others:
                for from_s, to_s, theirs in held(records, other):
                    if from_s < end_s and start_s < to_s:
                        assert mine.isdisjoint(where.device_of[slot] for slot in theirs)
    together = [
        min(a[1], b[1]) - max(a[0], b[0])
        for a in held(records, "wide")
        for b in held(records, "like")
    ]
    assert max(together) > 0, "wide and like never shared"


def test_three_jobs_go_round_two_at_a_time_on_one_device():
    """From the fourth turn on, in every round the one that waits takes the place of the longer
    running: each has two turns and waits one, at 0.6 in pairs."""
    jobs = [job(name, 0, 1, 300) for name in "abc"]
    records, _ = packed(jobs, shared(1, 1))
    starts = {name: [start_s for start_s, *_ in held(records, name)] for name in "abc"}
    assert [starts[name][:4] for name in "abc"] == [
        [0, 30, 60, 90], [10, 40, 70, 100], [20, 50, 80, 110],
    ]  # fmt: skip
    for name in "abc":
        lengths = [end_s - start_s for start_s, end_s, _ in held(records, name)]
        assert lengths[1:4] == [20, 20, 20]


def test_a_pair_of_which_one_could_not_start_is_not_tried_again():
    """As where two need more memory than the device has: turns, and no second attempt."""

    class NoRoom(ChaosEngine):
        """Whoever starts beside another fails."""

        def apply(self, changes):
            devices = [where.device_of[s] for slots in self._held.values() for s in slots]
            self._failure_share = float(any(where.device_of[c.slots[0]] in devices for c in changes
                                            if c.slots))  # fmt: skip
            return super().apply(changes)

    where = shared(1, 1)
    chaos = NoRoom(where, seed=1)
    chaos.abilities = replace(chaos.abilities, share_device=True)
    jobs = [job("a", 0, 1, 60), job("b", 5, 1, 60)]
    records, recorder = packed(jobs, where, chaos=chaos)
    assert {record.state for record in records.jobs} == {"finished"}
    failed = [change for change in records.changes if change.outcome == "failed"]
    assert [(change.job_id, change.to_slots) for change in failed] == [("a", (1,))]
    tried = [
        grant
        for decision in recorder.decisions
        for grant in decision.changes.values()
        if isinstance(grant, Grant) and grant.share < 1.0
    ]
    assert len(tried) == 1


def test_where_no_device_is_shared_it_decides_as_one_that_never_packs():
    jobs = [job(f"{i:02d}", 3.0 * i, 1 + i % 3, 40.0 + 9 * (i * 7 % 11)) for i in range(14)]
    found = []
    for above in (None, 1.0):
        _, recorder = run(jobs, Gandiva(10.0, pack_above=above), cluster(2, 2))
        found.append([(view.time_s, decision) for view, decision in
                      zip(recorder.views, recorder.decisions, strict=True)])  # fmt: skip
    assert found[0] == found[1]


sizes = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from([1, 1, 1, 2, 2, 4]), st.integers(1, 60)),
    min_size=1,
    max_size=12,
)
speeds = st.sampled_from([(1.0, 0.6), (1.0, 0.5), (1.0, 0.8, 0.6)])


def on_devices(view):
    """Which jobs hold slots of each device."""
    found = defaultdict(set)
    for one in view.jobs.values():
        for slot in one.slots:
            found[view.cluster.device_of[slot]].add(one.job_id)
    return found


@settings(deadline=None, max_examples=examples(80))
@given(rows=sizes, speed=speeds, above=st.sampled_from([0.0, 1.0]))
def test_two_at_most_and_nobody_waits_longer_than_a_turn_of_each(rows, speed, above):
    jobs = [job(f"{i:02d}", at, slots, slots * s) for i, (at, slots, s) in enumerate(rows)]
    where = shared(2, 2, speed)
    records, recorder = packed(jobs, where, Gandiva(5.0, pack_above=above))
    assert {record.state for record in records.jobs} == {"finished"}
    for view in recorder.views:
        for device, names in on_devices(view).items():
            assert len(names) <= 2, (view.time_s, device)
            devices = [{where.device_of[s] for s in view.jobs[name].slots} for name in names]
            assert all(one == devices[0] for one in devices), "one shares a part of its devices"
            assert len({len(view.jobs[name].slots) for name in names}) == 1
    longest_s = 5.0 * (len(jobs) + 1)
    for one in jobs:
        times = [(one.arrival_s, one.arrival_s, 0), *periods(records, one.job_id)]
        for (_, before_s, _), (start_s, _, _) in pairwise(times):
            assert start_s - before_s <= longest_s, (one.job_id, before_s, start_s)


@settings(deadline=None, max_examples=examples(80))
@given(
    rows=sizes,
    seed=st.integers(0, 2**16),
    outages=st.dictionaries(
        st.integers(0, 3), st.tuples(st.integers(0, 40), st.integers(1, 30)), max_size=2
    ),
    deaths=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 60)), max_size=4),
    shrinks=st.booleans(),
)
def test_everybody_ends_whatever_fails(rows, seed, outages, deaths, shrinks):
    jobs = [job(f"{i:02d}", at, slots, slots * s) for i, (at, slots, s) in enumerate(rows)]
    where = shared(2, 2)
    chaos = ChaosEngine(
        where,
        seed,
        max_delay_s=3,
        failure_share=0.2,
        outages=tuple(
            (slot, at, at + length)
            for device, (at, length) in outages.items()
            for slot in where.devices[device]
        ),
        deaths=tuple(deaths),
        shrinks=shrinks,
    )
    chaos.abilities = replace(Abilities(True, True, True, True), share_device=True)
    records, recorder = packed(jobs, where, Gandiva(5.0, pack_above=1.0), chaos=chaos)
    assert {record.state for record in records.jobs} == {"finished"}
    for view in recorder.views:
        assert all(len(names) <= 2 for names in on_devices(view).values())


def test_options_must_mean_something():
    with pytest.raises(
        ValueError, match=r"pack_above is 2\.0; give the sum that a pair's relative speeds"
    ):
        Gandiva(pack_above=2.0)

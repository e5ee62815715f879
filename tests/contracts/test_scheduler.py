"""What every scheduler owes the replay. A new file in configs/scheduler/ is tested by existing.

Each scheduler is driven by real replays: at no cost, and under an engine whose changes take
time and fail, whose slots go down and whose workers die. The replay itself refuses impossible
decisions; the recorded views and decisions are then examined.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.job import DeadlineKind, JobSpec
from harness.contracts.scheduler import Knowledge, Requirement
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.curves import curve_profile
from tests.schedulers.world import Recorder, built, run, shipped

SCHEDULERS = shipped("scheduler")
EVERY = {"static_share": 4}
"""Schedulers that give every job so many slots, whatever it requests."""
WHERE = cluster(2, 4)
PROFILE = curve_profile(
    {"dips": {1: 4.0, 2: 7.0, 3: 9.0, 4: 8.0, 8: 12.0}, "flat": {1: 5.0, 2: 5.0}}
)


@st.composite
def traces(draw):
    """Up to ten jobs of every sort that this cluster can serve, over a minute or an hour."""
    jobs = []
    unit_s = draw(st.sampled_from([1.0, 60.0]))
    for index in range(draw(st.integers(1, 10))):
        low = draw(st.integers(1, 3))
        high = draw(st.one_of(st.none(), st.integers(low, 8)))
        elastic = draw(st.booleans())
        slots = draw(st.integers(1, 4))
        arrival_s = unit_s * draw(st.integers(0, 30))
        deadline_s = draw(st.one_of(st.none(), st.integers(1, 60)))
        # The largest batch stays: one that fits no slot would be a job that nobody can serve.
        lowest_batch = draw(st.sampled_from([None, 4]))
        jobs.append(
            job(
                f"{index:02d}",
                arrival_s,
                slots,
                unit_s * draw(st.integers(1, 60)),
                workload=draw(st.sampled_from(["recorded", "dips", "flat"])),
                elastic=elastic,
                min_slots=low if elastic else 1,
                max_slots=high if elastic else None,
                min_global_batch=lowest_batch,
                deadline_s=None if deadline_s is None else arrival_s + unit_s * deadline_s,
                deadline_kind=DeadlineKind.NONE if deadline_s is None else DeadlineKind.HARD,
            )
        )
    return jobs


@st.composite
def storms(draw):
    """Options of a chaos engine; at most one outage a slot."""
    outages = draw(
        st.dictionaries(
            st.integers(0, 7), st.tuples(st.integers(0, 30), st.integers(1, 20)), max_size=3
        )
    )
    deaths = draw(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 40)), max_size=4))
    return {
        "seed": draw(st.integers(0, 10**6)),
        "max_delay_s": draw(st.integers(0, 3)),
        "failure_share": draw(st.sampled_from([0.0, 0.2])),
        "outages": tuple((slot, at, at + length) for slot, (at, length) in outages.items()),
        "deaths": tuple(deaths),
        "shrinks": draw(st.booleans()),
    }


def examine_ends(records, recorder) -> None:
    """Everybody is served, but for those whose deadlines an admission control cannot keep."""
    assert {record.state for record in records.jobs} <= {"finished", "refused"}
    for record in records.jobs:
        if record.state == "refused":
            assert Knowledge.DEADLINE in recorder.needs
            assert record.deadline_kind == "hard"
            assert "deadline" in record.reason
            assert recorder.refuses_late or record.first_start_s is None


def examine(recorder, every=None) -> None:
    """The rules that can be read off single views and decisions.

    ``every``: slots that a scheduler which does not size jobs gives all of them; None: those that
    they request.
    """
    for view, decision in zip(recorder.views, recorder.decisions, strict=True):
        granted = Counter({i: one.grant.num_slots for i, one in view.jobs.items() if one.grant})
        before = granted.total()
        assert all(view.down_slots.isdisjoint(one.slots) for one in view.jobs.values())
        for job_id, change in decision.changes.items():
            spec = view.jobs[job_id].spec
            present = view.jobs[job_id].grant
            if isinstance(change, Grant):
                most = view.cluster.num_slots if spec.max_slots is None else spec.max_slots
                assert spec.min_slots <= change.num_slots <= most
                assert spec.elastic or change.num_slots == spec.requested_slots
                low, high = spec.batch_range
                assert low <= (change.global_batch or spec.global_batch) <= high
                if Requirement.RESCALE not in recorder.requires:
                    asked = spec.requested_slots if every is None else every
                    gang = max(spec.min_slots, min(asked, most))
                    assert not spec.elastic or change.num_slots == gang, "not its gang"
                assert present != change, "a change that changes nothing"
                granted[job_id] = change.num_slots
            elif isinstance(change, Suspend):
                assert present is not None, "suspended what has nothing"
                granted[job_id] = 0
            else:
                assert present is None
                assert change.reason
        assert granted.total() <= max(view.num_usable, before)
        named = Counter(
            slot
            for job_id, one in view.jobs.items()
            for grant in [decision.changes.get(job_id, one.grant)]
            if isinstance(grant, Grant) and grant.slots is not None
            for slot in grant.slots
        )
        assert all(count == 1 for count in named.values()), "two jobs are promised one slot"
        assert not named.keys() & view.down_slots or not decision.changes
        assert decision.wake_s is None or decision.wake_s > view.time_s
        no_suspension = Requirement.SUSPEND not in recorder.requires
        for job_id, change in decision.changes.items():
            if no_suspension and isinstance(change, Suspend):
                assert not view.jobs[job_id].slots, "suspends without having declared it"
            present = view.jobs[job_id].grant
            if (
                Requirement.RESCALE not in recorder.requires
                and isinstance(change, Grant)
                and present is not None
            ):
                held = len(view.jobs[job_id].slots)
                assert held in (0, change.num_slots), "rescales without having declared it"


@pytest.mark.parametrize("name", SCHEDULERS)
@settings(deadline=None, max_examples=examples(60))
@given(jobs=traces())
def test_every_job_that_fits_is_served(name, jobs):
    records, recorder = run(jobs, built("scheduler", name), WHERE, known=PROFILE)
    examine(recorder, EVERY.get(name))
    examine_ends(records, recorder)
    assert len(records.jobs) == len(jobs)


@pytest.mark.parametrize("name", SCHEDULERS)
@settings(deadline=None, max_examples=examples(60))
@given(jobs=traces(), storm=storms())
def test_the_same_under_delays_failures_and_outages(name, jobs, storm):
    chaos = ChaosEngine(WHERE, **storm)
    records, recorder = run(jobs, built("scheduler", name), WHERE, known=PROFILE, chaos=chaos)
    examine(recorder, EVERY.get(name))
    examine_ends(records, recorder)


@pytest.mark.parametrize("name", SCHEDULERS)
@settings(deadline=None, max_examples=examples(25))
@given(jobs=traces(), storm=storms())
def test_same_views_same_decisions_and_views_stay_as_they_were(name, jobs, storm):
    """Views are kept to the end of the run, then shown again, in order, to a new scheduler."""
    snapshots: list[str] = []

    class Snapshots(list):
        def append(self, view):
            snapshots.append(show(view))
            super().append(view)

    recorder = Recorder(built("scheduler", name), views=Snapshots())
    chaos = ChaosEngine(WHERE, **storm)
    run(jobs, recorder, WHERE, known=PROFILE, chaos=chaos)
    assert [show(view) for view in recorder.views] == snapshots
    again = built("scheduler", name)
    for view, decision in zip(recorder.views, recorder.decisions, strict=True):
        assert told(again.decide(view)) == told(decision)
    assert [show(view) for view in recorder.views] == snapshots


@pytest.mark.parametrize("name", SCHEDULERS)
@settings(deadline=None, max_examples=examples(25))
@given(jobs=traces())
def test_undeclared_knowledge_changes_nothing(name, jobs):
    """What a scheduler did not declare is replaced by nonsense; its decisions stay."""
    _, recorder = run(jobs, built("scheduler", name), WHERE, known=PROFILE)
    again = built("scheduler", name)
    for view, decision in zip(recorder.views, recorder.decisions, strict=True):
        altered = {i: with_nonsense(one, recorder.needs) for i, one in view.jobs.items()}
        assert told(again.decide(replace(view, jobs=altered))) == told(decision)


def with_nonsense(one, needs):
    hidden: dict[str, object] = {}
    if Knowledge.DEADLINE not in needs:
        deadline_s = one.spec.arrival_s + 1.0 + (ord(one.job_id[-1]) % 7)
        hidden |= {"deadline_s": deadline_s, "deadline_kind": DeadlineKind.SOFT}
    if Knowledge.REMAINING_WORK not in needs:
        hidden |= {"work_samples": 1.0 + len(one.job_id), "duration_s": 3.0}
    spec = object.__new__(JobSpec)
    for field in JobSpec.__slots__:
        object.__setattr__(spec, field, hidden.get(field, getattr(one.spec, field)))
    throughput = one.throughput if Knowledge.THROUGHPUT in needs else Nonsense()
    noise_scale = one.noise_scale if Knowledge.GRADIENT_NOISE in needs else 7.0
    return replace(one, spec=spec, throughput=throughput, noise_scale=noise_scale)


class Nonsense:
    """A curve that falls."""

    def samples_per_s(self, num_slots, global_batch=None):
        return 1000.0 / (1 + num_slots)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_nobody_is_refused_who_could_be_served_and_nobody_else_waits_for_ever(name):
    jobs = [job("huge", 0.0, 9, 10.0, elastic=False), job("whole", 1.0, 8, 16.0, max_slots=8)]
    jobs.append(job("one", 2.0, 1, 3.0))
    records, recorder = run(jobs, built("scheduler", name), WHERE, known=PROFILE)
    ends = {record.job_id: record.state for record in records.jobs}
    assert ends == {"huge": "refused", "whole": "finished", "one": "finished"}
    refusals = [
        change
        for d in recorder.decisions
        for change in d.changes.values()
        if isinstance(change, Refuse)
    ]
    assert len(refusals) == 1
    assert "9 slots" in refusals[0].reason


@pytest.mark.parametrize("name", SCHEDULERS)
def test_declares_what_it_needs_and_requires(name):
    scheduler = built("scheduler", name)
    assert all(isinstance(entry, Knowledge) for entry in scheduler.needs)
    assert all(isinstance(entry, Requirement) for entry in scheduler.requires)


def told(decision: Decision):
    """A decision as what it says, in its own order."""
    return list(decision.changes.items()), decision.wake_s


def show(view) -> str:
    """All that a view says, as text that later changes cannot reach."""
    jobs = sorted(view.jobs.items())
    flights = sorted(view.in_flight.items())
    return repr((view.time_s, jobs, view.news, sorted(view.down_slots), view.num_granted, flights))

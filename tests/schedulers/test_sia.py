"""Sia: its integer program by brute force, its matrix by hand, replays on several device types."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Grant, Suspend
from systems.schedulers.sia.assignment import Row, assign
from systems.schedulers.sia.configurations import (
    Configuration,
    Rule,
    cluster_counts,
    goodputs,
    job_configurations,
)
from systems.schedulers.sia.scheduler import Sia
from tests.contracts.test_scheduler import examine, storms, traces
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.curves import curve_profile
from tests.schedulers.mixed import held_types, mixed, run_mixed, speeds
from tests.schedulers.world import periods, run

V1, V2, T1 = Configuration("v", 1), Configuration("v", 2), Configuration("t", 1)


@st.composite
def programs(draw):
    """Up to four jobs, some alike, with values on up to four configurations of two types."""
    sizes = [Configuration(kind, count) for kind in "tv" for count in (1, 2, 3)]
    values = st.dictionaries(st.sampled_from(sizes), st.integers(-2, 9), max_size=4)
    few = draw(st.lists(values, min_size=1, max_size=3))
    rows = draw(st.lists(st.sampled_from(few), min_size=1, max_size=4))
    totals = {"t": draw(st.integers(0, 4)), "v": draw(st.integers(0, 4))}
    return [
        Row(str(i), {k: float(v) for k, v in row.items()}) for i, row in enumerate(rows)
    ], totals


@settings(deadline=None, max_examples=examples(100))
@given(programs())
def test_the_program_against_every_assignment(program):
    rows, totals = program
    found = assign(rows, totals)
    assert worth(rows, totals, [found.get(row.job_id) for row in rows]) == max(
        worth(rows, totals, choice)
        for choice in itertools.product(*([None, *row.values] for row in rows))
    )


def worth(rows, totals, choice):
    """Sum of values; minus infinity where a type has too few slots."""
    for kind, total in totals.items():
        if sum(one.num_slots for one in choice if one and one.device_type == kind) > total:
            return float("-inf")
    return sum(row.values[one] for row, one in zip(rows, choice, strict=True) if one)


def test_of_equal_jobs_the_first_ones_are_served():
    rows = [Row(name, {V1: 1.0}) for name in ("b", "a", "c")]
    assert assign(rows, {"v": 2}) == {"b": V1, "a": V1}


def test_configurations_and_matrix_worked_by_hand():
    where = mixed(t=3, v=8)
    counts = cluster_counts(where)
    assert counts == {"t": (1, 2, 3), "v": (1, 2, 4, 8)}
    assert cluster_counts(cluster(3, 4)) == {"test": (1, 2, 4, 8, 12)}
    totals = {"t": 3, "v": 8}
    own = job_configurations(job("a", min_slots=2, max_slots=4), counts, totals)
    assert own == (("t", 2), ("t", 3), ("v", 2), ("v", 4))
    assert job_configurations(job("a", slots=5, elastic=False), counts, totals) == (("v", 5),)
    curve = speeds(v=6.0, t=4.0).throughput("net", 8)
    row = goodputs(curve, [Configuration("t", 2), Configuration("v", 2), Configuration("v", 4)])
    assert list(row.values()) == [2.0, 3.0, 3.0], "its least entry is its least size"


def test_restart_factor_and_values_worked_by_hand():
    rule = Rule(fairness_power=-0.5, queue_penalty=1.1, restart_s=30.0)
    assert rule.restart_factor(20.0, 0) == 1.0
    assert rule.restart_factor(270.0, 0) == 0.9
    assert rule.restart_factor(270.0, 3) == 0.6
    assert rule.restart_factor(60.0, 5) == 0.0
    assert rule.value(4.0) == pytest.approx(1.1 - 0.5)
    assert rule.value(0.0) == pytest.approx(1.1 - 100.0)
    assert Rule(1.0, 2.0, 30.0).value(4.0) == 6.0


def test_a_job_alone_doubles_every_round():
    known = curve_profile({"good": {1: 1.0, 8: 8.0}})
    jobs = [job("a", 0, 1, 1000, workload="good")]
    records, _ = run(jobs, Sia(restart_s=1.0), cluster(1, 8), known=known)
    assert periods(records, "a")[:4] == [(0, 60, 1), (60, 120, 2), (120, 180, 4), (180, 252.5, 8)]


def test_a_job_that_gains_more_takes_the_faster_type_and_the_other_moves():
    """1 v and 1 t. slow gains a factor of 2 on v and has it; at 3600 s fast comes, which gains 10.
    By then a restart costs slow 1% of its goodput: -(1/0.99)**0.5 - 10**-0.5 is more than
    -2**-0.5 - 1. slow leaves and is on t a second later."""
    known = speeds(v=2.0, t=1.0)
    known.families["fast"] = speeds(v=10.0, t=1.0).families["net"]
    jobs = [
        job("slow", 0, 1, 9000, workload="net", max_slots=1),
        job("fast", 3600, 1, 100, workload="fast", max_slots=1),
    ]
    where = mixed(v=1, t=1)
    records, recorder = run_mixed(jobs, Sia(), where, known)
    assert held_types(records, where, "slow")[:2] == [(0, "v"), (3601, "t")]
    assert held_types(records, where, "fast") == [(3600, "v")]
    at = {
        view.time_s: d.changes for view, d in zip(recorder.views, recorder.decisions, strict=True)
    }
    assert at[3600] == {"slow": Suspend(), "fast": Grant(1, device_type="v")}
    assert at[3601] == {"slow": Grant(1, device_type="t")}


@settings(deadline=None, max_examples=examples(10))
@given(jobs=traces(), storm=storms())
def test_several_types_under_delays_failures_and_outages(jobs, storm):
    weather_a_storm(jobs, storm, round_s=30.0)


@pytest.mark.long
@settings(deadline=None, max_examples=examples(40))
@given(jobs=traces(), storm=storms())
def test_several_types_in_rounds_that_meet_changes_in_flight(jobs, storm):
    weather_a_storm(jobs, storm, round_s=5.0)


def weather_a_storm(jobs, storm, round_s):
    """Nobody waits for ever, and no job ever holds two types."""
    where = mixed(t=3, v=5)
    known = speeds(v=3.0, t=1.0)
    known.families.update(dict.fromkeys(("dips", "flat"), known.families["net"]))
    scheduler, chaos = Sia(round_s=round_s, restart_s=1.0), ChaosEngine(where, **storm)
    records, recorder = run(jobs, scheduler, where, known=known, chaos=chaos)
    examine(recorder)
    assert {record.state for record in records.jobs} == {"finished"}
    for grant in records.grants:
        assert len({where.slots[slot].device_type for slot in grant.slots}) == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"round_s": 0.0}, "round_s is 0.0; give seconds above 0"),
        ({"fairness_power": 0.0}, "fairness_power is 0.0; give a number other than 0"),
        ({"growth": 1.0, "restart_s": -1.0}, "restart_s is -1.0.*\ngrowth is 1.0"),
    ],
)
def test_wrong_options_are_told(options, text):
    with pytest.raises(ValueError, match=text):
        Sia(**options)

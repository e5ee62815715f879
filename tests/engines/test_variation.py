"""Simulations whose jobs and changes differ from trial to trial, as a profile says they do."""

import math
from dataclasses import replace
from statistics import fmean, median, stdev

import numpy as np
import pytest

from harness.engines.simulated.costs import SimulatedCosts
from harness.engines.simulated.job import SimulatedJob
from harness.engines.simulated.options import Simulated
from harness.engines.simulated.variation import Variation
from harness.engines.varied import SimulatedVaried
from harness.profiles import ProfileError, RescaleCost, load_profile
from harness.profiles.spread import deviation, expected_range, nearest
from harness.replay import replay
from systems.schedulers.elasticflow import ElasticFlow
from systems.schedulers.fifo import Fifo
from tests.engines.setups import setup
from tests.replay.worlds import FirstFree, job, profile

SPREAD = {8: {1: 0.1, 2: 0.3}}


def measured(spread=SPREAD, trials=5, spread_s=0.5):
    """One network whose five trials differed by a tenth on one slot, and by more on two."""
    net = {"device": "none", "samples_per_s": {8: {1: 10.0, 2: 16.0}}, "spread": spread}
    cell = {"preparation_s": 0.0, "pause_s": 1.0, "trials": 5, "spread_s": spread_s}
    return load_profile(
        {
            "name": "measured",
            "provenance": {
                **dict.fromkeys(("hardware", "versions", "source", "licence"), "a test"),
                "trials": trials,
                "spread": "largest minus smallest trial, over the median",
                "measured_here": True,
                "rescale_costs": "made for a test",
            },
            "throughput": {"net": {key: value for key, value in net.items() if value}},
            "rescale_costs": [cell],
        }
    )


def jobs(num=3, work=1000.0):
    return tuple(job(f"j{n}", 3.0 * n, 1, work, workload="net", max_slots=2) for n in range(num))


def run(profile, repetition=0, seed=0, engine=None, scheduler=None, of=None):
    world = replace(setup(profile, *(of or jobs())), seed=seed, repetition=repetition)
    return replay(
        jobs=world.jobs,
        cluster=world.cluster,
        scheduler=scheduler or Fifo(),
        placement=FirstFree(),
        engine=(engine or SimulatedVaried()).open(world),
        profile=profile,
    )


@pytest.mark.parametrize(("num", "of_root"), [(2, 2.0), (3, 3.0)])
def test_the_expected_range_is_the_exact_one_where_there_is_a_formula(num, of_root):
    assert expected_range(num) == pytest.approx(of_root / math.sqrt(math.pi), abs=1e-9)


def test_the_expected_range_is_that_of_draws():
    draws = np.random.default_rng(0).normal(size=(200_000, 5))
    assert expected_range(5) == pytest.approx(float(np.ptp(draws, axis=1).mean()), rel=5e-3)
    with pytest.raises(ValueError, match="at least 2"):
        expected_range(1)


@pytest.mark.parametrize(
    ("spread", "num"),
    [(None, 5), ("wide", 5), (0.1, None), (0.1, "several"), (0.1, 1), (0.0, 5), (True, 5)],
)
def test_what_a_profile_does_not_say_does_not_vary(spread, num):
    assert deviation(spread, num) == 0.0


def test_the_nearest_measured_size_says_how_much():
    assert nearest(SPREAD, 8, 2) == 0.3
    assert nearest(SPREAD, 100, 7) == 0.3, "beyond the largest: that one"
    assert nearest({8: {1: 0.1, 3: 0.3}}, 8, 2) == 0.1, "between two: the smaller"
    assert nearest({}, 8) is None


def test_trials_that_are_drawn_differ_as_much_as_those_that_were_measured():
    """The circle is closed: five drawn trials have the range that the profile states."""
    known = measured()
    spec = jobs()[0]
    for num_slots, stated in SPREAD[8].items():
        logs = [math.log(Variation(known, 1, n).of_speed(spec, 8, num_slots)) for n in range(4000)]
        ranges = np.ptp(np.array(logs).reshape(-1, 5), axis=1)
        assert float(ranges.mean()) == pytest.approx(stated, rel=0.05)
        assert median(logs) == pytest.approx(0.0, abs=0.05 * stated), "around the profile's median"


def test_a_trial_is_the_same_whoever_asks_and_when():
    first, second = jobs()[:2]
    one, other = (Variation(measured(), 3, 7) for _ in range(2))
    cost = RescaleCost(0.0, 1.0, {}, 0.2)
    asked = [one.of_speed(first, 8, 1), one.of_speed(second, 8, 1), one.of_cost(cost, "j0", 4)]
    again = [other.of_cost(cost, "j0", 4), other.of_speed(second, 8, 1)]
    assert asked == [other.of_speed(first, 8, 1), *again[::-1]]
    assert len({*asked, one.of_speed(first, 8, 2), one.of_cost(cost, "j0", 5)}) == 5
    assert Variation(measured(), 3, 8).of_speed(first, 8, 1) != asked[0]
    assert Variation(measured(), 4, 7).of_speed(first, 8, 1) != asked[0]


def test_repetitions_differ_and_each_can_be_repeated():
    ends = [[record.finish_s for record in run(measured(), n).jobs] for n in (0, 0, 1)]
    assert ends[0] == ends[1] != ends[2]


def test_without_a_spread_it_is_the_plain_simulation():
    known = measured(spread=None, spread_s=0.0)
    assert run(known, 5).jobs == run(known, engine=Simulated()).jobs
    assert run(known, 5).changes == run(known, engine=Simulated()).changes


def test_the_mean_of_many_is_the_simulation_at_the_medians():
    """Where nothing hangs on ties, drawing changes no mean."""
    known = measured()
    alone = jobs(1)
    plain = run(known, engine=Simulated(), of=alone).jobs[0].finish_s
    drawn = [run(known, n, of=alone).jobs[0].finish_s for n in range(300)]
    assert fmean(drawn) == pytest.approx(plain, rel=0.01)
    expected = plain * 0.1 / expected_range(5)
    assert stdev(drawn) == pytest.approx(expected, rel=0.25)


def test_every_change_takes_its_own_time_unless_changes_are_free():
    taken = [change.ended_s - change.requested_s for change in run(measured()).changes]
    assert len(set(taken)) == len(taken) > 1
    free = run(measured(), engine=SimulatedVaried(rescale_cost="zero")).changes
    assert {change.ended_s - change.requested_s for change in free} == {0.0}


def test_every_recovery_takes_its_own_time():
    world = setup(measured(), *jobs())

    def taken_s(repetition):
        costs = SimulatedCosts(world, 2.0, Variation(measured(), 0, repetition))
        survivors = [SimulatedJob(one) for one in jobs(2)]
        return [costs.recovery_s(progress, 2) for progress in survivors for _ in range(2)]

    assert taken_s(0) == taken_s(0)
    assert len({*taken_s(0), *taken_s(1)}) == 8
    assert SimulatedCosts(world, 2.0).recovery_s(SimulatedJob(jobs()[0]), 2) == 2.0


def test_what_hangs_on_a_tie_falls_either_way():
    """The first job ends as a time slot begins: the second starts then, or a slot later. One
    simulation takes one side; drawn ones take both about as often."""
    known = measured(spread_s=0.0)
    whole = {"workload": "net", "min_slots": 4, "max_slots": 4}
    late = {"deadline_s": 1000.0, "deadline_kind": "soft"}
    pair = tuple(
        job(name, at_s, 4, 16.0 * 9.0, **whole, **late)
        for name, at_s in (("first", 0.0), ("second", 1.0))
    )

    def start_s(repetition, engine=None):
        found = run(known, repetition, engine=engine, scheduler=ElasticFlow(slot_s=1.0), of=pair)
        return next(one.first_start_s for one in found.jobs if one.job_id == "second")

    assert start_s(0, Simulated()) == 10.0
    drawn = [start_s(repetition) for repetition in range(60)]
    assert 15 <= sum(start <= 10.0 for start in drawn) <= 45


def test_schedulers_see_the_speeds_of_the_profile():
    seen = []

    class Looks(Fifo):
        needs = ElasticFlow.needs

        def decide(self, view):
            seen.extend(one.throughput.samples_per_s(1) for one in view.jobs.values())
            return super().decide(view)

    run(measured(), 2, scheduler=Looks())
    assert set(seen) == {10.0}


def test_a_profile_that_states_no_spread_is_refused():
    for known in (measured(spread=None), measured(trials="not stated"), measured(trials=1)):
        (problem,) = SimulatedVaried().problems(setup(known, *jobs()))
        assert "does not state by how much its trials differ" in problem
        assert "engine=simulated" in problem
    for known in (measured(), measured(spread={8: {1: 0.0, 2: 0.3}})):  # jobs may have two slots
        assert SimulatedVaried().problems(setup(known, *jobs())) == []
    (problem,) = SimulatedVaried().problems(setup(profile(), job("a")))
    assert "would vary" in problem


def test_workloads_without_a_spread_are_told():
    mixed = [*jobs(1), job("other", 0.0)]
    assert SimulatedVaried().problems(setup(measured(), *mixed)) == []
    (caution,) = SimulatedVaried().warnings(setup(measured(), *mixed))
    assert "states no spread for recorded" in caution
    assert SimulatedVaried().warnings(setup(measured(), *jobs())) == []


def test_a_spread_that_is_no_number_is_refused():
    with pytest.raises(ProfileError, match="spread_s is 'wide'"):
        measured(spread_s="wide")

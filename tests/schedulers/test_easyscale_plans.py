"""EasyScale's plans against every way to hand out virtual workers, on small cases."""

import math
import random
from itertools import product

import pytest

from harness.profiles.virtual_workers import spread, step_s
from systems.schedulers.easyscale_plans.model import Device
from systems.schedulers.easyscale_plans.plans import Planner, choices

CASES = range(300)


def drawn(seed):
    """Up to three types, up to six devices, up to eight virtual workers."""
    rng = random.Random(seed)
    num_types = rng.randint(1, 3)
    speeds = [rng.choice([1.0, 2.0, 2.45, 1.55, rng.uniform(0.1, 5)]) for _ in range(num_types)]
    nums = [0] * num_types
    for _ in range(rng.randint(1, 5)):
        nums[rng.randrange(num_types)] += 1
    return tuple(speeds), tuple(nums), rng.randint(sum(nums), 8)


def shortest_step(speeds, most_executors, factors, max_p):
    """Of all ways to give slots executors, and executors virtual workers: one at least each."""
    best = math.inf
    for executors in product(range(1, most_executors + 1), repeat=len(speeds)):
        rates = [s * factors[m] for s, m in zip(speeds, executors, strict=True) for _ in range(m)]
        if len(rates) > max_p:
            continue
        for counts in product(range(1, max_p + 1), repeat=len(rates)):
            if sum(counts) == max_p:
                best = min(best, max(c / r for c, r in zip(counts, rates, strict=True)))
    return best


@pytest.mark.parametrize("seed", CASES)
def test_no_way_is_faster(seed):
    speeds, nums, max_p = drawn(seed)
    planner = Planner(tuple(Device(speed) for speed in speeds), max_p)
    best = planner.best(nums)
    types = [i for i, count in enumerate(nums) for _ in range(count)]
    slots = [speeds[i] for i in types]
    expected = shortest_step(slots, 1, {1: 1.0}, max_p)
    assert best.perf == pytest.approx(max_p / expected)
    plan = planner.virtual_workers(best, types)
    assert sum(plan) == max_p
    assert min(plan) >= 1
    assert step_s(plan, slots) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(60))
def test_no_way_is_faster_with_executors(seed):
    rng = random.Random(seed)
    speeds = [rng.choice([1.0, 1.7, 3.0]) for _ in range(rng.randint(1, 2))]
    max_p = rng.randint(len(speeds) * 2, 6)
    factors = {1: 1.0, 2: rng.choice([0.4, 0.5, 0.7, 0.95])}
    # Types apart, so that each slot has its own number of executors.
    devices = tuple(Device(speed, tuple(factors.values()), 2) for speed in speeds)
    best = Planner(devices, max_p).best((1,) * len(speeds))
    assert best.perf == pytest.approx(max_p / shortest_step(speeds, 2, factors, max_p))


@pytest.mark.parametrize("seed", range(100))
def test_whole_scales_are_floors_and_ceilings_of_multiples_of_the_slowest(seed):
    speeds, nums, max_p = drawn(seed)
    planner = Planner(tuple(Device(speed) for speed in speeds), max_p, scales="whole")
    used = [i for i, count in enumerate(nums) if count]
    slowest = min(speeds[i] for i in used)
    best = 0.0
    for t in range(1, max_p + 1):
        exact = [round(t * speeds[i] / slowest, 9) for i in used]
        for threads in product(*({math.floor(x), math.ceil(x)} for x in exact)):
            if sum(nums[i] * a for i, a in zip(used, threads, strict=True)) >= max_p:
                step = max(a / speeds[i] for i, a in zip(used, threads, strict=True))
                best = max(best, max_p / step)
    assert planner.best(nums).perf == pytest.approx(best)
    assert best <= Planner(planner.devices, max_p).best(nums).perf * (1 + 1e-9)


def test_whole_scales_miss_what_lies_between():
    devices = (Device(2.45), Device(1.0))
    assert Planner(devices, 8).best((1, 1)).threads == (6, 2)
    assert Planner(devices, 8, scales="whole").best((1, 1)).threads == (7, 3)


def test_what_wastes_too_much_is_ruled_out():
    # Eight on six equal devices: two each, six of eight seconds' worth of work in each.
    planner = Planner((Device(1.0),), 8)
    assert planner.best((6,)).waste_percent == pytest.approx(100 / 3)
    assert [one.nums for one in planner.configurations([(4,), (5,), (6,), (8,)])] == [
        (4,),
        (5,),
        (8,),
    ]


def test_more_devices_than_virtual_workers_are_no_configuration():
    assert Planner((Device(1.0),), 2).best((3,)) is None
    assert Planner((Device(0.0), Device(1.0)), 2).best((1, 1)) is None
    assert Planner((Device(1.0),), 2).best((0,)) is None


def test_choices_add_and_exchange():
    assert list(choices((1, 0), 1, (1, 1), False)) == [(2, 0), (1, 1)]
    assert list(choices((1, 0), 1, (1, 1), True)) == [(2, 0)]
    assert list(choices((0, 0), 1, (3, 1), True)) == [(1, 0), (0, 1)]
    assert list(choices((1, 0), 1, (0, 0), False)) == []
    given_back = list(choices((3, 0), 1, (0, 2), False, exchange=True))
    assert given_back == [(3, 1), (2, 1), (0, 1)]
    assert list(choices((3, 0), 1, (0, 2), True, exchange=True)) == [(0, 1)]


def test_spread_refuses_what_does_not_fit():
    assert spread(5, [2.0, 1.0]) == (4, 1)  # as fast as 3 and 2; ties: the first slot
    with pytest.raises(ValueError, match="1 virtual workers on 2 slots"):
        spread(1, [1.0, 1.0])
    with pytest.raises(ValueError, match="3 virtual workers do not fit"):
        spread(3, [1.0, 1.0], [1, 1])

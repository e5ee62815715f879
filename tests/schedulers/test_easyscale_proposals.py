"""Which proposals a job makes, and which the cluster accepts (Algorithm 1)."""

import random
from itertools import product

import pytest

from systems.schedulers.easyscale_plans.model import Configuration, Device
from systems.schedulers.easyscale_plans.plans import Planner
from systems.schedulers.easyscale_plans.proposals import Proposal, accept, propose, starts


def asked(job_id, speedup, *added, arrival_s=0.0):
    configuration = Configuration(added, added, added, 0.0, 0.0, 1.0)
    return Proposal(job_id, (arrival_s, job_id), configuration, added, speedup)


def names(proposals):
    return [(one.job_id, one.added) for one in proposals]


def test_highest_speedup_first():
    three = [asked("slow", 0.1, 1), asked("fast", 0.9, 1), asked("middle", 0.5, 1)]
    assert names(accept(three, (2,))) == [("fast", (1,)), ("middle", (1,))]


def test_of_equal_speedup_the_larger_first():
    assert names(accept([asked("a", 0.5, 1), asked("b", 0.5, 2)], (2,))) == [("b", (2,))]


def test_what_does_not_fit_is_removed_and_the_next_is_looked_at():
    """The printed loop never gets past the first proposal here."""
    proposals = [asked("large", 0.9, 3), asked("small", 0.1, 1)]
    assert names(accept(proposals, (2,))) == [("small", (1,))]


def test_one_proposal_a_job_and_each_type_by_itself():
    proposals = [
        asked("a", 0.9, 1, 0),
        asked("a", 0.8, 0, 1),
        asked("b", 0.7, 1, 0),
        asked("b", 0.6, 0, 1),
    ]
    assert names(accept(proposals, (1, 1))) == [("a", (1, 0)), ("b", (0, 1))]


def test_ties_go_to_the_earlier_job():
    late, early = asked("a", 0.5, 1, arrival_s=2.0), asked("b", 0.5, 1, arrival_s=1.0)
    assert names(accept([late, early], (1,))) == [("b", (1,))]


@pytest.mark.parametrize("seed", range(200))
def test_accepted_proposals_fit_and_nobody_is_passed_over(seed):
    rng = random.Random(seed)
    free = tuple(rng.randint(0, 4) for _ in range(2))
    proposals = [
        asked(rng.choice("abcdef"), rng.choice([0.1, 0.2, 0.3]), *added)
        for _ in range(rng.randint(0, 9))
        if any(added := (rng.randint(0, 2), rng.randint(0, 2)))
    ]
    accepted = accept(proposals, free)
    left = list(free)
    # By the text: a list sorted by speed-up and devices, from which the top is always taken.
    stack = sorted(proposals, key=lambda p: (-p.speedup_per_slot, -p.num_added, p.order))
    expected = []
    while stack:
        top = stack.pop(0)
        fits = all(a <= b for a, b in zip(top.added, left, strict=True))
        if fits and top.job_id not in [one.job_id for one in expected]:
            expected.append(top)
            left = [b - a for a, b in zip(top.added, left, strict=True)]
    assert accepted == expected
    assert all(count >= 0 for count in left)


COMMON = {
    "job_id": "j",
    "order": (0.0, "j"),
    "least": 1,
    "most": 99,
    "max_added": 16,
    "top_k": 3,
    "one_type": False,
    "exchange": False,
}


def test_one_more_slot_is_proposed_the_fastest_first():
    planner = Planner((Device(1.0), Device(2.0)), 12)
    made = propose(planner, held=(1, 1), free=(2, 2), **COMMON)
    # Steps of 4 s now; with another fast one 2.5 s, with another slow one 3 s.
    assert names(made) == [("j", (0, 1)), ("j", (1, 0))]
    now = planner.best((1, 1)).perf
    assert made[0].speedup_per_slot == pytest.approx(planner.best((1, 2)).perf / now - 1)


def test_top_k_are_kept():
    planner = Planner((Device(1.0), Device(2.0)), 6)
    made = propose(planner, held=(1, 1), free=(2, 2), **{**COMMON, "top_k": 1})
    assert names(made) == [("j", (0, 1))]


def test_more_slots_at_once_where_one_brings_nothing():
    """Four on two equal slots are as fast on three; the paper's step of one gets stuck."""
    planner = Planner((Device(1.0),), 4)
    made = propose(planner, held=(2,), free=(9,), **COMMON)
    assert names(made) == [("j", (2,))]
    assert made[0].speedup_per_slot == pytest.approx(0.5)
    assert propose(planner, held=(2,), free=(9,), **{**COMMON, "max_added": 1}) == []
    assert propose(planner, held=(2,), free=(9,), **{**COMMON, "most": 3}) == []


def test_an_exchange_moves_to_faster_devices():
    planner = Planner((Device(1.0), Device(4.0)), 2)
    assert propose(planner, held=(2, 0), free=(0, 1), **COMMON) == []
    (swap,) = propose(planner, held=(2, 0), free=(0, 1), **{**COMMON, "exchange": True})[:1]
    assert swap.configuration.nums == (0, 1)
    assert swap.added == (0, 1)


def test_what_was_rejected_is_not_proposed_again():
    planner = Planner((Device(1.0), Device(2.0)), 12)
    made = propose(planner, held=(1, 1), free=(2, 2), rejected=[(1, 2)], **COMMON)
    assert names(made) == [("j", (1, 0))]


def test_a_start_is_on_the_least_slots_whatever_it_wastes():
    planner = Planner((Device(1.0), Device(2.0)), 4)
    made = starts(planner, job_id="j", order=(0.0, "j"), free=(3, 3), least=3, one_type=True)
    assert names(made) == [("j", (0, 3)), ("j", (3, 0))]
    assert made[0].configuration.waste_percent > 30


@pytest.mark.parametrize("seed", range(150))
def test_proposals_are_the_best_of_all_with_the_fewest_that_help(seed):
    rng = random.Random(seed)
    devices = tuple(Device(rng.choice([1.0, 1.3, 2.45, 3.0])) for _ in range(rng.randint(1, 3)))
    planner = Planner(devices, rng.randint(1, 8))
    held = tuple(rng.randint(0, 2) for _ in devices)
    if not 0 < sum(held) <= planner.max_p:
        held = (1,) + (0,) * (len(devices) - 1)
    free = tuple(rng.randint(0, 3) for _ in devices)
    one_type = rng.random() < 0.3 and sum(n > 0 for n in held) == 1
    made = propose(planner, held=held, free=free, **{**COMMON, "one_type": one_type})
    now = planner.best(held).perf
    found = {}
    for added in product(*(range(count + 1) for count in free)):
        nums = tuple(a + b for a, b in zip(held, added, strict=True))
        if one_type and sum(n > 0 for n in nums) > 1:
            continue
        one = planner.best(nums)
        if one and one.waste_percent <= 30.0001 and one.perf > now * 1.0000001:
            found.setdefault(sum(added), []).append(one.perf)
    if not found:
        assert made == []
        return
    fewest = min(found)
    assert {one.num_added for one in made} == {fewest}
    perfs = [one.configuration.perf for one in made]
    assert perfs == pytest.approx(sorted(found[fewest], reverse=True)[:3])

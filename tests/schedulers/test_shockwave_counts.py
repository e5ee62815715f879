"""Shockwave's plan by prices: by brute force on small windows, by HiGHS on large ones."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from systems.schedulers.shockwave.counts import Budget, near_best
from systems.schedulers.shockwave.window import Share, _by_program, best_counts, objective

ROUND_S = 120.0
GAP = 1e-3


def draw(rng, num_jobs, widths):
    """Jobs in mid-life, from 2 minutes to a day, some far behind their fair finish time."""
    jobs = []
    for _ in range(num_jobs):
        whole_s = ROUND_S * rng.uniform(1.0, 4.0) ** rng.choice([1, 2, 4])
        left_s = whole_s * rng.choice([1.0, 1.0, rng.uniform(0.01, 1.0)])
        weight = rng.choice([1.0, 1.0, rng.uniform(1.0, 3.0) ** 5])
        done = 1.0 - left_s / whole_s
        jobs.append(Share(rng.choice(widths), done, ROUND_S / whole_s, left_s, weight))
    return jobs


def small_windows(how_many, seed):
    """Windows that can be searched: widths that fill the slots, and widths that do not."""
    rng = random.Random(seed)
    for _ in range(how_many):
        num_slots = rng.choice([2, 3, 4, 8])
        widths = [n for n in rng.choice([(1,), (1, 2, 4), (2, 3, 5, 7)]) if n <= num_slots]
        jobs = draw(rng, rng.randint(1, 4), widths)
        yield jobs, num_slots, rng.randint(1, 6), rng.choice([0.0, 1e-6, 1e-3, 1.0])


def slot_rounds(jobs, counts):
    return sum(one.width * count for one, count in zip(jobs, counts, strict=True))


def optimum(jobs, num_slots, num_rounds, makespan_weight):
    """By every plan there is."""
    plans = np.array(list(itertools.product(range(num_rounds + 1), repeat=len(jobs))))
    plans = plans[plans @ [one.width for one in jobs] <= num_slots * num_rounds]
    utilities = [[one.utility(count) for count in range(num_rounds + 1)] for one in jobs]
    welfare = sum(
        one.weight * np.take(u, plans[:, i])
        for i, (one, u) in enumerate(zip(jobs, utilities, strict=True))
    )
    left = np.array([one.left_s for one in jobs]) - plans * ROUND_S
    longest = np.maximum(0.0, left.max(axis=1))
    return float((welfare / (len(jobs) * num_rounds) - makespan_weight * longest).max())


def planned(jobs, num_slots, num_rounds, makespan_weight):
    """What prices alone find."""
    values, budget = problem(jobs, num_slots, num_rounds, makespan_weight)
    return near_best(values, [one.width for one in jobs], [one.left_s for one in jobs], budget)


def problem(jobs, num_slots, num_rounds, makespan_weight):
    """A window as numbers."""
    scale = 1.0 / (len(jobs) * num_rounds)
    values = [
        [scale * one.weight * one.utility(n) for n in range(one.useful_rounds(num_rounds) + 1)]
        for one in jobs
    ]
    return values, Budget(num_slots * num_rounds, ROUND_S, makespan_weight)


def is_scarce(jobs, num_slots, num_rounds):
    return slot_rounds(jobs, [one.useful_rounds(num_rounds) for one in jobs]) > (
        num_slots * num_rounds
    )


@pytest.mark.parametrize("gap", [0.05, GAP, 1e-6])
def test_no_plan_of_a_small_window_is_better_by_more_than_the_gap(gap):
    for jobs, num_slots, num_rounds, weight in small_windows(250, seed=1):
        counts = best_counts(jobs, num_slots, num_rounds, ROUND_S, weight, gap)
        assert slot_rounds(jobs, counts) <= num_slots * num_rounds
        assert all(0 <= n <= num_rounds for n in counts)
        value = objective(jobs, counts, num_rounds, ROUND_S, weight)
        best = optimum(jobs, num_slots, num_rounds, weight)
        assert best - value <= gap * abs(value) + 1e-9


def test_no_plan_exceeds_the_bound_and_the_value_is_what_the_plan_is_worth():
    shown = {True: 0, False: 0}
    for jobs, num_slots, num_rounds, weight in small_windows(600, seed=2):
        if not is_scarce(jobs, num_slots, num_rounds):
            continue
        plan = planned(jobs, num_slots, num_rounds, weight)
        best = optimum(jobs, num_slots, num_rounds, weight)
        noise = 1e-9 * max(1.0, abs(best))
        assert plan.bound >= best - noise
        assert slot_rounds(jobs, plan.counts) <= num_slots * num_rounds
        worth = objective(jobs, plan.counts, num_rounds, ROUND_S, weight)
        assert plan.value == pytest.approx(worth, rel=1e-9, abs=1e-9)
        for gap in (0.05, GAP, 1e-6):
            if plan.is_within(gap):
                assert best - worth <= gap * abs(worth) + noise
        shown[plan.is_within(GAP)] += 1
    assert min(shown.values()) > 50, "both are met with: a near bound, and widths that fill badly"


def test_a_hundred_jobs_as_well_as_by_the_program():
    rng = random.Random(3)
    shown = 0
    for _ in range(20):
        jobs = draw(rng, 100, (1, 2, 4, 8))
        num_slots, num_rounds, weight = 32, 8, rng.choice([0.0, 1e-5, 1e-3])
        assert is_scarce(jobs, num_slots, num_rounds)
        counts = best_counts(jobs, num_slots, num_rounds, ROUND_S, weight, GAP)
        others = _by_program(jobs, *problem(jobs, num_slots, num_rounds, weight), GAP)
        assert slot_rounds(jobs, counts) <= num_slots * num_rounds
        value = objective(jobs, counts, num_rounds, ROUND_S, weight)
        other = objective(jobs, others, num_rounds, ROUND_S, weight)
        assert other - value <= GAP * abs(value)
        plan = planned(jobs, num_slots, num_rounds, weight)
        assert plan.bound >= other - 1e-6 * abs(other), "the program takes 1e-6 for whole"
        shown += plan.is_within(GAP)
    assert shown >= 15, "the program is hardly ever asked"


def test_the_order_of_jobs_only_decides_between_equal_gains():
    rng = random.Random(4)
    for _ in range(20):
        jobs = [replace(one, weight=rng.uniform(1, 9)) for one in draw(rng, 40, (1, 2, 4))]
        counts = best_counts(jobs, 16, 10, ROUND_S, 1e-3, GAP)
        mixed = rng.sample(range(40), 40)
        again = best_counts([jobs[i] for i in mixed], 16, 10, ROUND_S, 1e-3, GAP)
        assert again == [counts[i] for i in mixed]
    twins = [Share(1, 0.0, 0.1, 1200.0)] * 5
    assert best_counts(twins, 1, 7, ROUND_S, 1e-3, GAP) == [2, 2, 1, 1, 1]


def test_progress_that_counts_for_none_cannot_fool_the_bound():
    """The second round gains more than the first, which is still below the least progress."""
    jobs = [Share(1, 0.0, 0.9e-6, 1e8), Share(1, 0.0, 0.8e-6, 1e8, weight=1.1)]
    best = optimum(jobs, 1, 6, 0.0)
    assert planned(jobs, 1, 6, 0.0).bound >= best - 1e-12
    counts = best_counts(jobs, 1, 6, ROUND_S, 0.0, 1e-6)
    assert objective(jobs, counts, 6, ROUND_S, 0.0) == pytest.approx(best, rel=1e-5)


def test_without_slots_nothing_is_planned():
    assert best_counts(draw(random.Random(5), 3, (1, 2)), 0, 4, ROUND_S, 1e-3, GAP) == [0, 0, 0]

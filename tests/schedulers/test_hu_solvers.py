"""Hu's allocation problem: the paper's examples, every plan of small cases, and the fast search."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.schedulers.hu.big_m import big_m_model
from systems.schedulers.hu.fast import solve_fast
from systems.schedulers.hu.instance import Instance, Job, job_value, plan_value
from systems.schedulers.hu.knapsack import choose
from systems.schedulers.hu.solve import METHODS, solve_by_columns, solve_certified
from systems.schedulers.hu.tables import Tables
from systems.schedulers.hu.tight import solve_tight
from tests.examples import examples
from tests.schedulers.hu_cases import (
    COUNTS,
    SPEEDS,
    best_by_brute_force,
    hu_job,
    modelarts,
    small,
)

EXACT = 1e-6
SLACK = 1e-6
"""Relative: HiGHS and the whole numbers of the search both round less than this away."""


def test_figure_5_three_node_hours_are_served_in_four_half_hours_on_1_2_1_4_nodes():
    job = hu_job(3.0, step=0.5)
    positions = [COUNTS.index(count) for count in (1, 2, 1, 4)]
    assert 3.0 * job_value(job, positions[:1]) == pytest.approx(0.5)
    shares = [job_value(job, positions[: n + 1]) - job_value(job, positions[:n]) for n in range(4)]
    assert shares == pytest.approx([0.5 / 3, 1.3 / 3, 1.8 / 3, 1.0])
    assert pytest.approx(3.08) == 0.5 * (1 + 1.6 + 1 + 2.56)


@pytest.mark.parametrize("method", METHODS)
def test_figure_7_two_nodes_now_and_the_kept_minimum_does_no_harm(method):
    """One job of 2.6 node-steps and two nodes: 2 nodes now serve 1.6, the next step the rest. The
    model cannot let its nodes go afterwards, but only the first step is carried out."""
    instance = Instance((hu_job(2.6, most=2),), 2, 4)
    plan = METHODS[method](instance, EXACT)
    assert plan.first_counts(instance) == [2]
    assert job_value(instance.jobs[0], plan.choices[0][:2]) == pytest.approx(1.6 / 2.6 + 1.0)
    assert plan.value == pytest.approx(1.6 / 2.6 + 3.0)


def full_model(instance):
    """Best plan of the non-linear model with powers of two: eqs. (1) to (6), and by (7) to (11)
    no nodes for a job that has finished. All first steps of an optimum, and its worth."""
    best, firsts = -1.0, set()
    per_job = []
    for job in instance.jobs:
        schedules = []
        for schedule in itertools.product(range(len(job.counts)), repeat=instance.num_steps):
            done, used = 0.0, []
            for choice in schedule:
                used.append(0 if done >= 1.0 else job.counts[choice])
                done += job.progress[choice]
            schedules.append((tuple(used), job_value(job, schedule)))
        per_job.append(dict(schedules))
    for plan in itertools.product(*(schedules.items() for schedules in per_job)):
        used = [sum(one) for one in zip(*(held for held, _ in plan), strict=True)]
        if max(used) > instance.num_nodes:
            continue
        value = sum(worth for _, worth in plan)
        first = tuple(held[0] for held, _ in plan)
        if value > best + 1e-9:
            best, firsts = value, {first}
        elif value > best - 1e-9:
            firsts.add(first)
    return best, firsts


def test_first_steps_agree_with_the_full_model_in_most_cases():
    """Section 4.3: dropping the return to zero seldom changes what is carried out."""
    agreed = 0
    for seed in range(60):
        drawn = modelarts(seed, num_jobs=3, num_nodes=8, mean_min=10.0, num_steps=2)
        jobs = tuple(Job(job.counts[:4], job.progress[:4]) for job in drawn.jobs)
        instance = Instance(jobs, 8, 2)
        value, firsts = full_model(instance)
        plan = solve_by_columns(instance, EXACT)
        assert plan.value <= value + 1e-9
        agreed += tuple(plan.first_counts(instance)) in firsts
    assert agreed >= 45


@pytest.mark.parametrize("taken", COUNTS)
def test_indicators_of_a_count_hold_for_one_more_than_there_are_counts(taken):
    """Eqs. (16) to (18) and the proposition, at K = {1, 2, 4, 8, 16}: the model as printed, with
    the count of nodes held fast. A job of 100 speeds is not done before the step is over."""
    progress = tuple(speed / 100 for speed in SPEEDS)
    model, ((nodes,),) = big_m_model(Instance((Job(COUNTS, progress),), COUNTS[-1], 1))
    model.row(float(taken), [(nodes, 1.0)], float(taken))
    values = model.maximise(EXACT).values
    first = nodes + 2  # after the variable that is always 1
    deltas = [round(value) for value in values[first : first + 2 * len(COUNTS)]]
    below, above = deltas[::2], deltas[1::2]
    assert below == [taken <= count for count in COUNTS]
    assert above == [taken >= count for count in COUNTS]
    assert sum(deltas) == len(COUNTS) + 1 == 6
    assert values[first + len(deltas)] == pytest.approx(progress[COUNTS.index(taken)])


def test_an_even_split_beats_99_and_1():
    """Section 3: of two jobs on 100 nodes, with counts that are powers of two, 64 and 32."""
    counts = (1, 2, 4, 8, 16, 32, 64)
    job = Job(counts, tuple(n * 0.8 ** (counts.index(n)) / 1e4 for n in counts))
    plan = solve_tight(Instance((job, job), 100, 1))
    assert sorted(plan.first_counts(Instance((job, job), 100, 1))) == [32, 64]


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("method", ["columns", "tight", "fast", "big_m"])
def test_small_cases_by_brute_force(method, part):
    """100 cases each of which every plan was looked at; the printed form, which is slow, has 40."""
    for seed in range(part * 25, part * 25 + (10 if method == "big_m" else 25)):
        instance = small(seed)
        expected = best_by_brute_force(instance)
        plan = METHODS[method](instance, EXACT)
        assert plan_value(instance, plan.choices) == plan.value
        assert plan.value == pytest.approx(expected, rel=SLACK), seed
        assert plan.bound >= expected * (1 - 1e-9), seed


@pytest.mark.long
def test_many_small_cases_by_brute_force():
    for seed in range(1000, 2500):
        instance = small(seed)
        expected = best_by_brute_force(instance)
        for method in ("columns", "tight"):
            plan = METHODS[method](instance, EXACT)
            assert plan.value == pytest.approx(expected, rel=SLACK), (seed, method)
        search = solve_fast(instance, 1e-4)
        assert search.plan.value <= expected * (1 + 1e-9)
        assert search.plan.bound >= expected * (1 - 1e-9), seed


@pytest.mark.parametrize("seed", range(4))
def test_the_printed_form_has_the_optimum_of_the_tight_one(seed):
    instance = modelarts(seed, num_jobs=4, num_nodes=12, mean_min=40.0, num_steps=3)
    tight, printed = (METHODS[name](instance, EXACT) for name in ("tight", "big_m"))
    assert printed.value == pytest.approx(tight.value, rel=SLACK)


def close_to_the_optimum(seed, num_jobs, num_nodes, mean_min):
    instance = modelarts(seed, num_jobs, num_nodes, mean_min)
    plan = solve_certified(instance, 1e-3)
    exact = solve_by_columns(instance, 1e-5)
    assert plan.gap <= 1e-3
    assert plan.bound >= exact.value
    assert plan.value >= exact.value * (1 - 1e-3)
    assert plan_value(instance, plan.choices) == plan.value


@pytest.mark.parametrize(
    "case", [(1, 30, 50, 60.0), (2, 60, 110, 232.6), (3, 100, 190, 30.0), (4, 100, 150, 232.6)]
)
def test_the_fast_way_is_within_a_thousandth_and_its_bound_holds(case):
    close_to_the_optimum(*case)


@pytest.mark.long
@pytest.mark.parametrize("num_jobs", [30, 45, 60, 80, 100])
def test_the_fast_way_against_the_optimum_of_many(num_jobs):
    for seed in range(12):
        num_nodes = int(num_jobs * (1.2 + 0.3 * (seed % 5)))
        close_to_the_optimum(seed, num_jobs, num_nodes, [20.0, 60.0, 232.6][seed % 3])


@pytest.mark.parametrize("seed", range(3))
def test_columns_and_the_tight_form_agree_on_some_dozen_jobs(seed):
    instance = modelarts(seed, 15, 30, 60.0)
    assert solve_by_columns(instance, EXACT).value == pytest.approx(
        solve_tight(instance, EXACT).value, rel=2 * SLACK
    )


def test_below_30_jobs_the_fast_way_is_exact_also_at_a_wide_gap():
    for seed in range(8):
        instance = modelarts(seed, 3, 9, 30.0, num_steps=2)
        assert solve_certified(instance, 0.5).value == pytest.approx(
            best_by_brute_force(instance), rel=SLACK
        )


def test_enough_nodes_for_all_is_everybody_at_the_most():
    instance = modelarts(5, 40, 16 * 40)
    plan = solve_certified(instance, 1e-3)
    assert plan.value == pytest.approx(sum(job_value(job, [4] * 5) for job in instance.jobs))


def test_no_node_to_spare_is_everybody_at_the_least():
    instance = modelarts(5, 40, 40)
    assert solve_certified(instance, 1e-3).first_counts(instance) == [1] * 40


def test_the_same_instance_has_the_same_plan():
    instance = modelarts(9)
    plans = {solve_certified(instance, 1e-3) for _ in range(3)}
    assert len(plans) == 1


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(0, 1 << 20))
def test_a_knapsack_is_solved_exactly_whatever_price_it_starts_from(seed, capacity, near):
    instance = small(seed)
    tables = Tables.of(instance)
    choices = tables.extra[:, : instance.num_steps].argmin(1)[:, None].repeat(instance.num_steps, 1)
    worth = tables.step_worth(choices, 0)
    present = choices[:, 0]
    chosen = choose(worth, tables.extra, capacity, present, near, 0)
    rows = range(len(worth))
    assert tables.extra[rows, chosen].sum() <= capacity
    best = max(
        worth[rows, pick].sum()
        for pick in itertools.product(range(worth.shape[1]), repeat=len(worth))
        if tables.extra[rows, pick].sum() <= capacity
    )
    assert worth[rows, chosen].sum() == best


def test_an_instance_that_cannot_be_served_is_told():
    with pytest.raises(ValueError, match="need 2 nodes at least, but there are 1; leave out"):
        Instance((hu_job(1.0), hu_job(1.0)), 1, 5)
    with pytest.raises(ValueError, match="ascending"):
        Job((2, 1), (0.1, 0.2))
    with pytest.raises(ValueError, match="step 0 uses 4 of 3"):
        plan_value(Instance((hu_job(1.0),), 3, 1), [[2]])

"""Nodes that a plan leaves idle in its first step."""

import numpy as np
import pytest

from systems.schedulers.hu.instance import Instance, plan_value
from systems.schedulers.hu.solve import METHODS
from systems.schedulers.hu.spare import grown
from systems.schedulers.hu_milp import HuMilp
from tests.schedulers.hu_cases import hu_job


def test_idle_nodes_go_to_the_smallest_and_of_equals_to_the_one_with_less_left():
    jobs = (hu_job(9.0), hu_job(3.0), hu_job(5.0))
    assert grown(Instance(jobs, 7, 1), [2, 1, 1]) == [2, 2, 2]
    assert grown(Instance(jobs, 5, 1), [2, 1, 1]) == [2, 2, 1]
    assert grown(Instance(jobs, 4, 1), [2, 1, 1]) == [2, 1, 1]
    assert grown(Instance(jobs, 1000, 1), [2, 1, 1]) == [16, 16, 16]


def test_a_job_that_gains_nothing_by_more_nodes_keeps_its_own():
    flat = type(hu_job(1.0))((1, 2, 4), (0.1, 0.1, 0.4))
    assert grown(Instance((flat, hu_job(3.0, most=2)), 9, 1), [1, 1]) == [1, 2]


@pytest.mark.parametrize("seed", range(30))
def test_the_plan_stays_feasible_and_is_worth_no_less(seed):
    rng = np.random.default_rng(seed)
    jobs = tuple(hu_job(float(left)) for left in rng.uniform(0.2, 9.0, rng.integers(1, 6)))
    instance = Instance(jobs, int(rng.integers(len(jobs), 40)), 3)
    plan = METHODS["fast"](instance, 1e-3)
    counts = grown(instance, plan.first_counts(instance))
    choices = [
        (job.counts.index(count), *choice[1:])
        for job, count, choice in zip(jobs, counts, plan.choices, strict=True)
    ]
    assert sum(counts) <= instance.num_nodes
    assert plan_value(instance, choices) >= plan.value - 1e-9


def test_there_is_no_third_way():
    with pytest.raises(ValueError, match="spare_nodes is 'share'; known: grow, idle"):
        HuMilp(spare_nodes="share")

"""Hu's model as printed, counted: its symbols (table 1), and what leaving y out saves (4.3)."""

import itertools

import pytest

from systems.schedulers.common.highs import EXACT, INF, Model
from systems.schedulers.hu.big_m import big_m_model, solve_big_m
from systems.schedulers.hu.instance import Instance
from systems.schedulers.hu.tight import add_progress
from tests.schedulers.hu_cases import SPEEDS, hu_job
from tests.schedulers.test_hu_solvers import full_model

LARGE = 1e3
"""M where it has to cover a share of a demand: none of these cases is left nearer to its end."""


def integers(model):
    return sum(model.integers)


def rows(model):
    return len(model.row_lowers)


def returning(instance):
    """Eqs. (1) to (14) with powers of two: a job that has finished returns its nodes.

    Which count is taken is one binary each instead of two (a count may be none here); y and its
    constraints are as printed. The model, and how many of (7), (8), (10) and (11) it has.
    """
    model, steps_of, added = Model(), [], 0
    for job in instance.jobs:
        low = float(job.counts[0])
        nodes, served = [], []
        for _ in range(instance.num_steps):
            taken = [model.binary() for _ in job.counts]
            model.row(0.0, [(one, 1.0) for one in taken], 1.0)
            nodes.append([(one, float(k)) for one, k in zip(taken, job.counts, strict=True)])
            served.append(list(zip(taken, job.progress, strict=True)))
        first = len(model.costs)
        add_progress(model, served)
        done = range(first, len(model.costs))  # s / d
        finished = [model.binary() for _ in done]  # y
        for share, y in zip(done, finished, strict=True):
            model.row(-INF, [(y, 1.0), (share, -1.0)], 0.0)  # (7)
            model.row(1.0 - LARGE, [(y, 1.0), (share, -LARGE)], INF)  # (8)
            added += 2
        model.row(low, nodes[0], INF)  # (9)
        for held, share, y in zip(nodes[1:], done, finished, strict=False):
            model.row(low, [*held, (y, LARGE)], INF)  # (10)
            model.row(-INF, [*held, (share, LARGE)], LARGE)  # (11)
            added += 2
        steps_of.append(nodes)
    for step in range(instance.num_steps):
        used = [term for nodes in steps_of for term in nodes[step]]
        model.row(-INF, used, float(instance.num_nodes))  # (6)
    return model, added


def keeping(instance):
    """The same with (15) in the place of y and (7) to (11), in the form of ``returning``."""
    model, every = Model(), []
    for job in instance.jobs:
        served = []
        for _ in range(instance.num_steps):
            taken = [model.binary() for _ in job.counts]
            model.row(1.0, [(one, 1.0) for one in taken], 1.0)  # (15), once n is one of K
            served.append(list(zip(taken, job.progress, strict=True)))
            every.append([(one, float(k)) for one, k in zip(taken, job.counts, strict=True)])
        add_progress(model, served)
    for step in range(instance.num_steps):
        used = [term for held in every[step :: instance.num_steps] for term in held]
        model.row(-INF, used, float(instance.num_nodes))
    return model


def test_a_finished_job_returns_its_nodes_in_the_model_with_y():
    """Against every plan of small cases: the model that is counted below is the right one."""
    differs = 0
    for demands in itertools.product((0.9, 2.3, 4.5), repeat=2):
        jobs = tuple(hu_job(demand, most=4) for demand in demands)
        instance = Instance(jobs, 4, 3)
        expected, _ = full_model(instance)
        model, _ = returning(instance)
        assert model.maximise(EXACT).bound == pytest.approx(expected, rel=1e-5)
        kept = keeping(instance).maximise(EXACT).bound
        assert kept == pytest.approx(solve_big_m(instance).value, rel=1e-5)
        differs += kept < expected - 1e-6
    assert differs, "y never mattered, so these cases say nothing of it"


def test_section_4_3_saves_500_integer_variables_and_1800_constraints():
    """100 jobs, 5 steps. The 100 rows of (9) are replaced by the bounds (15) asks for."""
    instance = Instance(tuple(hu_job(10.0 + n) for n in range(100)), 190, 5)
    full, added = returning(instance)
    simplified = keeping(instance)
    assert integers(full) - integers(simplified) == 500
    assert added == 500 + 500 + 400 + 400 == 1800
    assert rows(full) - rows(simplified) == 1800 + 100


def test_table_1_every_symbol_is_a_part_of_the_model_as_printed():
    """I, T, K, n_min and n_max, N, p / d and the three families of variables that are left."""
    demand, step_hours, num_steps, num_nodes = 3.0, 0.5, 4, 9
    jobs = (hu_job(demand, step_hours, most=4), hu_job(demand, step_hours, most=16))
    instance = Instance(jobs, num_nodes, num_steps)
    model, held = big_m_model(instance)
    assert [len(steps) for steps in held] == [num_steps] * len(jobs)  # n of I x T
    for job, steps in zip(jobs, held, strict=True):
        for n in steps:
            assert model.integers[n]
            assert (model.lowers[n], model.uppers[n]) == (1.0, job.counts[-1])
    deltas = 2 * num_steps * sum(len(job.counts) for job in jobs)  # of I x T x K, two each
    assert integers(model) == len(jobs) * num_steps + deltas
    shares = [n for n, cost in enumerate(model.costs) if cost]  # s / d, the objective
    assert len(shares) == len(jobs) * num_steps
    assert {(model.costs[n], model.lowers[n], model.uppers[n]) for n in shares} == {(1.0, 0.0, 1.0)}
    assert model.row_uppers[-num_steps:] == [num_nodes] * num_steps  # N, in every step
    assert jobs[1].progress == tuple(step_hours * speed / demand for speed in SPEEDS)
    plan = solve_big_m(instance)
    first = plan.first_counts(instance)  # n_i, what is carried out
    assert first == [job.counts[choice[0]] for job, choice in zip(jobs, plan.choices, strict=True)]
    assert sum(first) <= num_nodes

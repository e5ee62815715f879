"""The optimal node allocator: what it decides, and replays of ModelArts-like traces."""

import math
from functools import cache
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings

from harness.contracts.decision import Grant
from harness.profiles import load_profile
from harness.trace.generators.hu import ModelArts
from harness.trace.model.trace import Trace
from harness.trace.transforms import TransformContext, UncertainWork
from systems.schedulers.hu.instance import Instance
from systems.schedulers.hu.pool import legal_counts
from systems.schedulers.hu_greedy import HuGreedy
from systems.schedulers.hu_milp import HuMilp
from tests.contracts.test_scheduler import PROFILE, WHERE, examine, storms, traces
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.hu_cases import best_by_brute_force, hu_job
from tests.schedulers.world import periods, run

SHARES = {"disturbed": 0.75, "bugs": 0.15, "terminated": 0.1}
"""The harsh mix of section 5.4."""


@cache
def modelarts_profile(name="modelarts"):
    return load_profile({"path": f"{name}.yaml"})


def modelarts_trace(seed, count=40, hours=3.0, **more):
    """Jobs like those of the log, at the paper's speeds, on fewer hours."""
    drawn = ModelArts(
        count=count, num_long=count, span_s=3600.0 * hours, long_mean_min=60.0, **more
    ).draw(np.random.default_rng(seed))
    jobs = [
        job(
            f"{number:03d}",
            float(row["arrival"]),
            1,
            float(row["duration"]),
            workload="modelarts",
            max_slots=16,
            duration_s=float(row["duration"]),
        )
        for number, row in enumerate(drawn.rows)
    ]
    return Trace("drawn", tuple(sorted(jobs, key=lambda one: one.order)))


def test_legal_counts():
    assert legal_counts(job("a"), 16) == (1, 2, 4, 8, 16)
    assert legal_counts(job("a", min_slots=2, max_slots=11), 16) == (2, 4, 8)
    assert legal_counts(job("a", min_slots=3, max_slots=3), 16) == (3,)
    assert legal_counts(job("a", min_slots=32), 16) == (32,)
    assert legal_counts(job("a", slots=6, elastic=False), 16) == (6,)


def test_two_equal_jobs_share_the_nodes():
    """Section 3's criticism of the greedy one: here nobody has all but one node."""
    jobs = [job("a", 0, 1, 1e5, workload="modelarts"), job("b", 0, 1, 1e5, workload="modelarts")]
    _, recorder = run(jobs, HuMilp(), cluster(8, 1), known=modelarts_profile())
    assert recorder.decisions[0].changes == {"a": Grant(4), "b": Grant(4)}


def test_the_first_step_of_the_best_plan_is_granted():
    """Three jobs on 8 nodes; the grants belong to a plan that is worth the optimum."""
    work = {"a": 300.0, "b": 900.0, "c": 4000.0}
    jobs = [job(i, 0, 1, seconds, workload="modelarts") for i, seconds in work.items()]
    _, recorder = run(jobs, HuMilp(num_steps=2), cluster(8, 1), known=modelarts_profile())
    first = recorder.decisions[0].changes
    model = [hu_job(seconds, step=300.0, most=8) for seconds in work.values()]
    best = best_by_brute_force(Instance(tuple(model), 8, 2))
    fixed = [
        type(one)((count,), (one.progress[one.counts.index(count)],))
        for one, count in zip(model, (first[i].num_slots for i in work), strict=True)
    ]
    served = sum(min(1.0, one.progress[0]) for one in fixed)
    rest = [
        type(one)(
            one.counts, tuple(p / max(1e-9, 1 - min(1.0, now.progress[0])) for p in one.progress)
        )
        for one, now in zip(model, fixed, strict=True)
    ]
    left = [max(0.0, 1 - min(1.0, now.progress[0])) for now in fixed]
    second = max(
        sum(
            share * min(1.0, one.progress[choice])
            for one, share, choice in zip(rest, left, choices, strict=True)
        )
        for choices in np.ndindex(4, 4, 4)
        if sum(one.counts[choice] for one, choice in zip(rest, choices, strict=True)) <= 8
    )
    assert 2 * served + second == pytest.approx(best)


def test_a_full_pool_serves_as_many_as_fit_and_nobody_overtakes():
    """Two nodes, four jobs: the first two have one each, the others wait for theirs in turn."""
    jobs = [job(i, number, 1, 400.0, workload="modelarts") for number, i in enumerate("abcd")]
    records, _ = run(jobs, HuMilp(), cluster(2, 1), known=modelarts_profile())
    starts = {record.job_id: record.first_start_s for record in records.jobs}
    assert starts["a"] == 0.0  # alone at first, on both nodes
    assert starts["a"] < starts["b"] < starts["c"] < starts["d"]


def test_freed_nodes_go_to_the_queue_one_second_later():
    """Fig. 8; its job 1 holds all 8 nodes. An elastic one would be planned on 4, with which it
    ends within the first step too: the objective knows no time within a step."""
    fixed = job("1", 0, 8, 8 * 129.0, elastic=False)
    jobs = [fixed, job("2", 62, 1, 800.0, max_slots=8)]
    records, _ = run(jobs, HuMilp(most_nodes=8), cluster(8, 1))
    assert periods(records, "2") == [(130, 230, 8)]


def test_the_papers_speeds_and_the_same_as_a_curve_give_the_same_decisions():
    trace = modelarts_trace(4, count=20)
    by_curve, by_law = (
        run(trace.jobs, HuMilp(loss_per_doubling=loss), cluster(30, 1), known=modelarts_profile())
        for loss in (None, 0.2)
    )
    assert [d.changes for d in by_curve[1].decisions] == [d.changes for d in by_law[1].decisions]


@pytest.mark.parametrize("options", [{}, {"method": "tight", "gap": 1e-6}])
def test_it_beats_the_greedy_one_on_total_time_of_short_and_long_jobs(options):
    """Fig. 10's shape at one pool of middle size; the pool is scaled with the trace."""
    trace = modelarts_trace(1, count=30, hours=1.5)
    optimal, greedy = (
        run(trace.jobs, scheduler, cluster(30, 1), known=modelarts_profile())[0]
        for scheduler in (HuMilp(**options), HuGreedy())
    )
    assert {record.state for record in optimal.jobs} == {"finished"}
    assert total_min(optimal) < total_min(greedy)


def total_min(records):
    return fmean(record.finish_s - record.arrival_s for record in records.jobs) / 60.0


@pytest.mark.parametrize("make", [HuMilp, HuGreedy])
@pytest.mark.parametrize("shares", [{}, SHARES], ids=["disturbed", "harsh"])
def test_disturbed_bug_and_terminated_jobs_end_and_give_their_nodes_back(make, shares):
    """Section 5.4: the allocator sees the stated work, the engine ends jobs at the true one."""
    trace = UncertainWork(**shares).apply(modelarts_trace(2), TransformContext(seed=3))
    stated = {one.job_id: one.work_samples * one.stated_work_ratio for one in trace.jobs}
    records, recorder = run(trace.jobs, make(), cluster(40, 1), known=modelarts_profile())
    assert {record.state for record in records.jobs} == {"finished"}
    examine(recorder)
    shown = [one for view in recorder.views for one in view.jobs.values()]
    if make is HuMilp:
        assert all(one.spec.work_samples == pytest.approx(stated[one.job_id]) for one in shown)
    else:
        assert all(math.isinf(one.spec.work_samples) for one in shown)
    assert all(one.spec.stated_work_ratio == 1.0 for one in shown)
    wrong = [one for one in trace.jobs if one.stated_work_ratio != 1.0]
    assert len(wrong) > len(trace.jobs) / 2


def test_a_job_that_goes_on_beyond_its_stated_work_keeps_nodes_until_it_ends():
    slow = job("slow", 0, 1, 2000.0, workload="modelarts", stated_work_ratio=0.5)
    records, recorder = run([slow], HuMilp(), cluster(1, 1), known=modelarts_profile())
    assert periods(records, "slow") == [(0, 2000, 1)]
    assert recorder.views[-2].jobs["slow"].remaining_samples(recorder.views[-2].time_s) == 0.0


@pytest.mark.parametrize("make", [HuMilp, HuGreedy])
def test_with_the_delay_of_15_s_a_job_stays_on_its_nodes_and_shrinking_is_immediate(make):
    """One job on 4 nodes; at 300 s it is halved for another, and grows again when that ends."""
    jobs = [
        job("a", 0, 1, 5000.0, workload="modelarts"),
        job("b", 100, 1, 200.0, workload="modelarts"),
    ]
    records, _ = run(jobs, make(), cluster(4, 1), known=modelarts_profile("modelarts_delay_15s"))
    delays = {
        (change.kind, change.requested_s): change.ended_s - change.requested_s
        for change in records.changes
    }
    assert delays["start", 0.0] == 15.0
    assert delays["rescale", 300.0] == 0.0
    assert delays["start", 300.0] == 15.0
    assert delays["rescale", 600.0] == 15.0


@pytest.mark.parametrize("make", [HuMilp, HuGreedy])
@settings(deadline=None, max_examples=examples(10))
@given(jobs=traces(), storm=storms())
def test_activations_in_the_midst_of_delays_failures_and_outages(make, jobs, storm):
    weather(make, jobs, storm)


def weather(make, jobs, storm):
    """The shared suite's storms with a period of 4 s, so that plans meet changes in flight."""
    chaos = ChaosEngine(WHERE, **storm)
    records, recorder = run(jobs, make(every_s=4.0), WHERE, known=PROFILE, chaos=chaos)
    examine(recorder)
    assert {record.state for record in records.jobs} == {"finished"}


@pytest.mark.long
@pytest.mark.parametrize("make", [HuMilp, HuGreedy])
@settings(deadline=None, max_examples=examples(100))
@given(jobs=traces(), storm=storms())
def test_many_activations_in_the_midst_of_delays_failures_and_outages(make, jobs, storm):
    weather(make, jobs, storm)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("make", [HuMilp, HuGreedy])
@settings(deadline=None, max_examples=examples(250))
@given(jobs=traces(), storm=storms())
def test_very_many_activations_in_the_midst_of_all_that(make, jobs, storm):
    weather(make, jobs, storm)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "cbc"}, "method is 'cbc'; known: fast, columns, tight, big_m"),
        ({"num_steps": 0}, "num_steps is 0; plan at least 1 step"),
        ({"num_steps": 9}, "1,953,125 schedules of a job.*plan fewer steps, or set method=tight"),
        ({"gap": 0.0}, "gap is 0.0; give a share"),
        ({"least_eta_s": 0.0}, "least_eta_s is 0.0"),
        ({"loss_per_doubling": 1.0}, "loss_per_doubling is 1.0; give a share from 0"),
    ],
)
def test_wrong_options_are_told(options, text):
    with pytest.raises(ValueError, match=text):
        HuMilp(**options)


def test_long_horizons_are_left_to_the_solver():
    HuMilp(num_steps=9, method="tight")

"""Pollux: goodput and its factors by hand, the search against the optimum, and runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Grant
from harness.contracts.scheduler import Knowledge, Requirement
from harness.profiles.curves import Family
from systems.schedulers.common.goodput import efficiency, goodput_table, realloc_factor
from systems.schedulers.common.share_search import Genetic, exact_shares, losses
from systems.schedulers.pollux import Pollux
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.curves import curve_profile
from tests.schedulers.world import periods, run


class PerStep:
    """A step takes 1 s and 0.1 s a sample of a slot's batch; n slots share the batch."""

    def samples_per_s(self, num_slots, global_batch=None, device_type=None):
        batch = global_batch or 8
        return batch / (1.0 + 0.1 * batch / num_slots) if num_slots else 0.0


def test_efficiency_and_reallocation_factor():
    assert efficiency(100.0, 10, 10) == 1.0
    assert efficiency(100.0, 10, 120) == pytest.approx(0.5)
    assert efficiency(0.0, 10, 40) == 0.25
    assert realloc_factor(300.0, 2, 30.0) == pytest.approx(240 / 330)
    assert realloc_factor(30.0, 2, 30.0) == 0.0
    assert realloc_factor(0.0, 0, 0.0) == 1.0


def test_the_batch_grows_with_the_noise_and_the_slots():
    spec = job("a", slots=1, min_global_batch=8, max_global_batch=64)
    unknown = goodput_table(spec, PerStep(), 4, None, 4)
    assert unknown.batches == (None,) * 5
    quiet = goodput_table(spec, PerStep(), 4, 0.0, 4)
    assert quiet.batches == (None,) * 5
    loud = goodput_table(spec, PerStep(), 4, 1e9, 4)
    assert loud.batches == (None, 64, 64, 64, 64)
    some = goodput_table(spec, PerStep(), 4, 30.0, 4)
    chosen = some.batches[1:]
    assert list(chosen) == sorted(chosen)
    for count, batch in enumerate(chosen, 1):
        best = max(
            range(8, 65),
            key=lambda m, n=count: PerStep().samples_per_s(n, m) * efficiency(30.0, 8, m),
        )
        assert abs(np.log2(batch / best)) <= 0.5 + 1e-9  # they are tried in ratios of 2


def test_the_fair_share_may_be_broken_or_out_of_range():
    table = goodput_table(job("a", min_slots=2, max_slots=3), PerStep(), 8, None, 1)
    assert table.goodput[:2] == (0.0, 0.0)
    assert table.fair(1.0) == table.goodput[2] / 2
    assert table.fair(2.9) == table.goodput[2]
    assert table.fair(8.0) == table.goodput[3]


@st.composite
def worths(draw):
    """Up to four jobs, up to five slots; some counts are not allowed."""
    width = draw(st.integers(2, 6))
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        row = [0.0] + [
            draw(st.one_of(st.just(float("nan")), st.floats(0.1, 5.0))) for _ in range(width - 1)
        ]
        rows.append(row)
    return np.array(rows)


@settings(deadline=None, max_examples=examples(100))
@given(values=worths(), num_slots=st.integers(1, 6), power=st.sampled_from([-1.0, 1.0, -10.0]))
def test_exact_shares_by_brute_force(values, num_slots, power):
    loss = losses(values, power)
    found = exact_shares(loss, num_slots)
    assert sum(found) <= num_slots

    def total(shares):
        return sum(row[count] for row, count in zip(loss, shares, strict=True))

    every = product(range(values.shape[1]), repeat=len(values))
    least = min(total(shares) for shares in every if sum(shares) <= num_slots)
    assert total(found) == pytest.approx(least)


@pytest.mark.parametrize("seed", range(6))
def test_the_search_comes_close_to_the_optimum(seed):
    """12 jobs with concave curves on 32 slots: within 5% of the best sum of inverse speed-ups."""
    rng = np.random.default_rng(seed)
    exponents = rng.uniform(0.2, 1.0, (12, 1))
    values = np.arange(33) ** exponents / 2.0
    loss = losses(values, -1.0)
    exact = sum(loss[j, c] for j, c in enumerate(exact_shares(loss, 32)))
    found = Genetic(100, 100).search(loss, 32, np.zeros((1, 12), np.int64), rng)[0]
    assert found.sum() <= 32
    assert exact <= sum(loss[j, c] for j, c in enumerate(found)) <= 1.05 * exact


def test_never_worse_than_where_it_began():
    rng = np.random.default_rng(0)
    loss = losses(np.sqrt(np.arange(9))[None].repeat(4, axis=0), -1.0)
    begun = np.array([[2, 2, 2, 2]])
    assert (Genetic(10, 0).search(loss, 8, begun, rng)[0] == 2).all()
    assert (Genetic(10, 20).search(loss, 8, begun, rng)[0] == 2).all()


@pytest.mark.parametrize("search", ["genetic", "exact"])
def test_equal_jobs_share_equally_and_grow_by_doubling(search):
    """At most twice the slots held so far, from one: 1, 2, 4 at 0, 10 and 20 s."""
    jobs = [job("a", 0, 1, 400), job("b", 0, 1, 400)]
    scheduler = Pollux(period_s=10.0, delay_s=0.0, search=search)
    records, _ = run(jobs, scheduler, cluster(1, 8))
    for job_id in "ab":
        assert [p[2] for p in periods(records, job_id)[:3]] == [1, 2, 4]
        assert [p[0] for p in periods(records, job_id)[:3]] == [0, 10, 20]


def test_slots_go_where_they_speed_up():
    known = curve_profile({"flat": {1: 1.0, 2: 1.01, 4: 1.02, 8: 1.03}})
    jobs = [job("flat", 0, 1, 50, workload="flat"), job("steep", 0, 1, 300)]
    scheduler = Pollux(period_s=10.0, delay_s=0.0, max_growth=None, search="exact")
    records, _ = run(jobs, scheduler, cluster(1, 8), known=known)
    assert periods(records, "steep")[0] == (0, periods(records, "steep")[0][1], 7)
    assert periods(records, "flat")[0][2] == 1


def test_a_change_must_be_worth_its_cost():
    """When b ends a, of age 20 s, would have twice the slots, but at 20 / 50 of their worth."""
    jobs = [job("a", 0, 1, 400), job("b", 0, 1, 40)]
    options = {"period_s": 10.0, "max_growth": None, "search": "exact"}
    eager, _ = run(jobs, Pollux(delay_s=0.0, **options), cluster(1, 4))
    assert periods(eager, "a")[1][0] == 20
    slow, _ = run(jobs, Pollux(delay_s=30.0, **options), cluster(1, 4))
    assert len(periods(slow, "a")) == 1


def test_with_known_noise_batches_are_granted():
    jobs = [job("a", 0, 1, 400, min_global_batch=8, max_global_batch=64, workload="net")]
    scheduler = Pollux(noise_scale={"net": 1e9}, period_s=10.0)
    assert Requirement.CHANGE_BATCH in scheduler.requires
    assert Requirement.CHANGE_BATCH not in Pollux().requires
    known = curve_profile({"net": {1: 1.0, 2: 2.0, 4: 4.0}})
    cells = {8: {1: 1.0, 2: 2.0, 4: 4.0}, 64: {1: 3.0, 2: 6.0, 4: 12.0}}
    known = replace(known, families={**known.families, "net": Family(cells)})

    def batches(noise_scale):
        scheduler = Pollux(noise_scale={"net": noise_scale}, period_s=10.0)
        _, recorder = run(jobs, scheduler, cluster(1, 4), known=known)
        changes = (c for d in recorder.decisions for c in d.changes.values())
        return {grant.global_batch for grant in changes if isinstance(grant, Grant)}

    assert batches(1e9) == {64}, "where all is noise, samples count and not steps"
    assert batches(1e-9) == {None}, "where none is, a larger batch does no more than its own"


def test_noise_is_told_to_who_declares_it():
    """By the profile: the same grants as where the same noise is assumed; and nothing unasked."""
    jobs = [
        job(name, 0, 1, 4000, min_global_batch=8, max_global_batch=64, workload=name)
        for name in ("noisy", "unknown")
    ]
    curves = {name: {1: 1.0, 2: 2.0, 4: 4.0} for name in ("noisy", "unknown")}
    cells = {8: curves["noisy"], 64: {1: 3.0, 2: 6.0, 4: 12.0}}
    known = curve_profile(curves)
    families = {**known.families, **{name: Family(cells) for name in curves}}
    known = replace(known, families=families, noise_scale={"noisy": 1e9})

    def told(scheduler):
        _, recorder = run(jobs, scheduler, cluster(1, 4), known=known)
        seen = {one.noise_scale for view in recorder.views for one in view.jobs.values()}
        return seen, [decision.changes for decision in recorder.decisions]

    seen, grants = told(Pollux(noise_scale="profile", period_s=10.0))
    assert seen == {1e9, None}
    assert Knowledge.GRADIENT_NOISE not in Pollux(noise_scale={"noisy": 1e9}).needs
    unasked, assumed = told(Pollux(noise_scale={"noisy": 1e9}, period_s=10.0))
    assert unasked == {None}
    assert grants == assumed
    batches = {
        (job_id, grant.global_batch)
        for changes in grants
        for job_id, grant in changes.items()
        if isinstance(grant, Grant)
    }
    assert ("noisy", 64) in batches
    assert {batch for job_id, batch in batches if job_id == "unknown"} == {None}
    assert told(Pollux(period_s=10.0))[0] == {None}


def test_the_seed_decides_the_search():
    jobs = [job(f"{i}", 0, 1, 400 + i) for i in range(5)]

    def grants(seed):
        records, _ = run(
            jobs, Pollux(search="genetic", generations=2, population=4, seed=seed), cluster(2, 4)
        )
        return [(g.job_id, g.start_s, len(g.slots)) for g in records.grants]

    assert grants(1) == grants(1)
    assert any(grants(1) != grants(seed) for seed in range(2, 6))


def test_options_must_mean_something():
    with pytest.raises(ValueError, match=r"power is 0\.0(.|\n)*max_growth is 1\.0"):
        Pollux(power=0.0, max_growth=1.0)
    with pytest.raises(ValueError, match="noise_scale is 'measured'; give profile, or samples"):
        Pollux(noise_scale="measured")

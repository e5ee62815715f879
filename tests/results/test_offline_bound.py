"""The bounds: by hand, against every schedule of small cases, and against every scheduler."""

import random
from functools import cache
from itertools import product

import pytest

from harness.contracts.job_state import JobState
from harness.metrics.compute import compute
from harness.metrics.offline_bound import least_jct_mean_s, most_deadlines_met
from harness.results.records import JobRecord
from tests.replay.worlds import cluster, job
from tests.schedulers.curves import curve_profile
from tests.schedulers.world import built, deadline_job, run


def record(name, arrival_s, least_slot_s, fastest_s, deadline_s=None, state=JobState.FINISHED):
    return JobRecord(
        job_id=name,
        workload="recorded",
        owner="",
        arrival_s=arrival_s,
        requested_slots=1,
        global_batch=8,
        work_samples=1.0,
        deadline_s=deadline_s,
        deadline_kind="none" if deadline_s is None else "hard",
        state=state,
        first_start_s=None,
        finish_s=None,
        samples_done=0.0,
        attained_slot_s=0.0,
        executed_s=0.0,
        num_rescales=0,
        num_preemptions=0,
        alone_s=None,
        fastest_alone_s=fastest_s,
        least_slot_s=least_slot_s,
    )


def test_each_of_the_three_bounds_worked_by_hand():
    """2 slots. Alone: 10 s. One machine, linear jobs: 2 and 4 s, ends 2 and 6. Mean moments: three
    jobs of 6 slot-seconds that scale to 1 slot: work in 0-3, 3-6, 6-9, so 1.5 + 4.5 + 7.5 and half
    of 6 s each are 22.5, while one after another is 18 and alone is 18."""
    assert least_jct_mean_s([record("a", 5, 10, 10)], 2) == 10.0
    assert least_jct_mean_s([record("a", 0, 4, 2), record("b", 0, 8, 4)], 2) == 4.0
    three = [record(name, 0, 6, 6) for name in "abc"]
    assert least_jct_mean_s(three, 2) == pytest.approx(22.5 / 3)


def test_deadlines_worked_by_hand():
    """2 slots, 10 s: of three jobs of 10 slot-seconds two are possible; not one that needs 11 s."""
    three = [record(name, 0, 10, 5, deadline_s=10.0) for name in "abc"]
    assert most_deadlines_met(three, 2) == 2
    assert most_deadlines_met([record("a", 0, 11, 11, deadline_s=10.0)], 2) == 0
    assert most_deadlines_met([*three, record("d", 0, 2, 2, 2.0, JobState.CANCELLED)], 2) == 2


def test_what_is_not_known_has_no_bound():
    unknown = record("a", 0, None, 5, deadline_s=10.0)
    assert least_jct_mean_s([unknown], 2) is None
    assert most_deadlines_met([unknown], 2) is None
    assert least_jct_mean_s([], 2) is None
    assert most_deadlines_met([record("a", 0, 1, 1)], 2) is None


CURVES = {"good": {1: 1.0, 2: 2.0}, "poor": {1: 1.0, 2: 1.2}, "super": {1: 1.0, 2: 2.5}}


def test_no_schedule_of_small_cases_is_better():
    """Every division of 2 slots among 3 jobs in every one of 6 s, for jobs of each sort."""
    rng = random.Random(0)
    for _ in range(60):
        jobs = [
            (rng.choice(sorted(CURVES)), rng.randint(0, 2), rng.randint(1, 2), rng.randint(1, 5))
            for _ in range(3)
        ]
        records = [
            record(
                str(i),
                arrival,
                min(work * n / CURVES[kind][n] for n in (1, 2)),
                work / CURVES[kind][2],
                deadline_s=float(arrival + deadline),
            )
            for i, (kind, arrival, work, deadline) in enumerate(jobs)
        ]
        total, met = best_schedule(tuple(jobs))
        mean = least_jct_mean_s(records, 2)
        arrivals = sum(arrival for _, arrival, _, _ in jobs)
        assert mean <= (total - arrivals) / 3 + 1e-9
        assert most_deadlines_met(records, 2) >= met


def best_schedule(jobs):
    """Least sum of ends, and most deadlines met, where slots change hands at whole seconds."""

    @cache
    def after(second, left):
        if not any(left):
            return 0.0, 0
        if second == 12:
            return float("inf"), -9
        ends, mets = [], []
        for counts in product(range(3), repeat=3):
            open_ = all(
                not n or (rest > 0 and kind[1] <= second)
                for n, rest, kind in zip(counts, left, jobs, strict=True)
            )
            if sum(counts) > 2 or not open_:
                continue
            then, end, met = [], 0.0, 0
            for n, rest, (kind, arrival, _, deadline) in zip(counts, left, jobs, strict=True):
                rate = CURVES[kind][n] if n else 0.0
                if n and rest <= rate + 1e-9:
                    finish = second + rest / rate
                    end, met = end + finish, met + (finish <= arrival + deadline + 1e-9)
                    then.append(0.0)
                else:
                    then.append(round(rest - rate, 6))
            later_end, later_met = after(second + 1, tuple(then))
            ends.append(end + later_end)
            mets.append(met + later_met)
        return min(ends), max(mets)

    return after(0, tuple(float(work) for _, _, work, _ in jobs))


@pytest.mark.parametrize("name", ["srtf", "afs", "elasticflow", "edf", "uniform", "saxena_dp"])
def test_no_scheduler_is_better(name):
    known = curve_profile(
        {
            "dips": {1: 4.0, 2: 9.0, 3: 9.5, 4: 9.0},
            "flat": {1: 5.0, 2: 5.0},
            "good": {1: 1.0, 8: 8.0},
        }
    )
    rng = random.Random(1)
    for _ in range(6):
        jobs = []
        for index in range(rng.randint(1, 8)):
            arrival_s, work = float(rng.randint(0, 300)), float(rng.randint(100, 3000))
            deadline_s = arrival_s + rng.randint(60, 900)
            made = deadline_job if rng.random() < 0.7 else job
            more = (deadline_s,) if made is deadline_job else ()
            one = made(f"{index:02d}", arrival_s, rng.randint(1, 4), work, *more)
            workload = rng.choice(["recorded", "dips", "flat", "good"])
            jobs.append(
                type(one)(**{f: getattr(one, f) for f in one.__slots__} | {"workload": workload})
            )
        records, _ = run(jobs, built("scheduler", name), cluster(1, 8), known=known)
        metrics = compute(records)
        if "jct_bound_mean_s" in metrics:
            assert metrics["jct_bound_mean_s"] <= metrics["jct_mean_s"] * (1 + 1e-9)
        if "deadline_bound_ratio" in metrics:
            met = metrics["deadline_satisfactory_ratio"]
            assert met <= metrics["deadline_bound_ratio"] + 1e-9
        assert name == "saxena_dp" or metrics["jobs_finished"] == 0 or "jct_bound_mean_s" in metrics

"""EDF with admission control: its forecast, and whom it takes in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.schedulers.edf import Edf
from systems.schedulers.edf_admission import EdfAdmission
from systems.schedulers.shares.edf_forecast import Runner, ends_s
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.curves import curve_profile
from tests.schedulers.world import deadline_job, periods, run

CURVES = {"net": {1: 1.0, 2: 1.5, 4: 2.0}, "dips": {1: 4.0, 2: 7.0, 3: 9.0, 4: 8.0}}


def test_forecast_by_hand():
    """4 slots. a takes 2 and b, which has 1 or 4, one of the 2 left; c, which needs 2, waits for
    a. When a ends at 3 s, b has all 4."""
    a = Runner((1, 2), (1.0, 2.0), 6.0)
    b = Runner((1, 4), (1.0, 4.0), 11.0)
    c = Runner((2,), (2.0,), 4.0)
    assert ends_s([a, b, c], 4, 10.0) == [13.0, 15.0, 17.0]
    assert ends_s([c], 1, 0.0) == [float("inf")]
    assert ends_s([], 4, 0.0) == []


@settings(deadline=None, max_examples=examples(100))
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["net", "dips", "recorded"]), st.integers(1, 40), st.integers(1, 99)
        ),
        min_size=1,
        max_size=8,
        unique_by=lambda row: row[2],
    )
)
def test_forecasts_come_true(rows):
    """Everybody arrives at once, under plain EDF."""
    known = curve_profile(CURVES)
    jobs = [
        job(f"{i}", 0, 1, float(work), workload=name, deadline_s=float(d), deadline_kind="hard")
        for i, (name, work, d) in enumerate(rows)
    ]
    records, _ = run(jobs, Edf(), cluster(1, 4), known=known)
    jobs.sort(key=lambda one: one.deadline_s)
    runners = []
    for one in jobs:
        cells = {**CURVES, "recorded": {w: float(w) for w in range(1, 5)}}[one.workload]
        useful = [w for w in cells if all(cells[v] < cells[w] for v in cells if v < w)]
        if one.workload == "net":
            useful, cells = [1, 2, 3, 4], {**cells, 3: 1.75}
        runners.append(Runner(tuple(useful), tuple(cells[w] for w in useful), one.work_samples))
    found = {record.job_id: record.finish_s for record in records.jobs}
    assert [found[one.job_id] for one in jobs] == pytest.approx(ends_s(runners, 4, 0.0))


def test_a_job_is_refused_that_would_make_an_earlier_promise_break():
    """a needs all 4 slots until 10 s. b, due before it, would take 2 s of them: refused; so is
    c, due after it, which could not end before 13 s. d can."""
    jobs = [
        deadline_job("a", 0, 1, 40, 10.0),
        deadline_job("b", 1, 1, 8, 9.0),
        deadline_job("c", 2, 1, 12, 12.5),
        deadline_job("d", 3, 1, 12, 13.0),
    ]
    records, _ = run(jobs, EdfAdmission(), cluster(1, 4))
    ends = {record.job_id: (record.state, record.finish_s) for record in records.jobs}
    assert ends == {
        "a": ("finished", 10.0),
        "b": ("refused", 1.0),
        "c": ("refused", 2.0),
        "d": ("finished", 13.0),
    }


def test_a_soft_deadline_that_cannot_be_kept_comes_last():
    jobs = [
        deadline_job("a", 0, 1, 40, 10.0),
        job("s", 1, 1, 8, deadline_s=9.0, deadline_kind="soft"),
        job("n", 0, 1, 4),
    ]
    records, _ = run(jobs, EdfAdmission(), cluster(1, 4))
    assert periods(records, "a") == [(0.0, 10.0, 4)]
    assert periods(records, "n") == [(10.0, 11.0, 4)]
    assert periods(records, "s") == [(11.0, 13.0, 4)]


def test_a_margin_must_mean_something():
    with pytest.raises(ValueError, match=r"margin_s is -1\.0"):
        EdfAdmission(margin_s=-1.0)
    records, _ = run([deadline_job("a", 0, 1, 40, 10.0)], EdfAdmission(margin_s=1.0))
    assert records.jobs[0].state == "refused"

import pickle
from dataclasses import replace

import pytest

from harness.trace.model.trace import Trace, TraceError
from tests.trace.examples import job, trace


def test_digest_depends_on_jobs_alone():
    first = trace(job(1, 0.0), job(2, 5.0))
    renamed = replace(first, name="other", source="elsewhere", history=("a step",))
    assert first.digest == renamed.digest
    assert len(first.digest) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"arrival_s": 5.5},
        {"work_samples": 1001.0},
        {"requested_slots": 2},
        {"owner": "someone"},
        {"elastic": False},
        {"duration_s": None},
        {"max_slots": 4},
    ],
)
def test_digest_sees_every_change(change):
    before = trace(job(1, 0.0), job(2, 5.0))
    after = trace(job(1, 0.0), replace(job(2, 5.0), **change))
    assert before.digest != after.digest


def test_digest_takes_whole_and_float_numbers_as_equal():
    assert trace(job(1, 0), job(2, 5)).digest == trace(job(1, 0.0), job(2, 5.0)).digest


def test_digest_is_stable_across_versions():
    # A change of this number breaks the comparison with every stored run: bump the schema.
    assert trace(job(1, 0.0)).digest == (
        "f7d26da408b27a5a94ec7f5957e3eb56df504c1e9b5e17ebd4067e2a1bb05186"
    )


def test_no_jobs_twice_the_same_id_and_wrong_order_are_refused():
    with pytest.raises(TraceError, match="no job is left"):
        Trace("empty", ())
    with pytest.raises(TraceError, match="'001' is used 2 times"):
        trace(job(1, 0.0), job(1, 5.0))
    with pytest.raises(TraceError, match="order of arrival"):
        trace(job(1, 5.0), job(2, 0.0))
    with pytest.raises(TraceError, match="order of arrival"):
        trace(job(2, 0.0), job(1, 0.0))


def test_error_shows_one_screen_and_keeps_every_problem():
    error = TraceError(f"jobs.csv:{line}: broken; mend it" for line in range(100))
    assert len(error.problems) == 100
    lines = str(error).splitlines()
    assert len(lines) == 13
    assert lines[0] == "jobs.csv:0: broken; mend it"
    assert lines[-1] == "... and 88 more like these"


def test_error_crosses_processes():
    error = pickle.loads(pickle.dumps(TraceError(["a: b; c", "d: e; f"])))
    assert error.problems == ["a: b; c", "d: e; f"]


def test_step_sorts_and_tells_what_was_done():
    before = trace(job(1, 0.0), job(2, 5.0))
    after = before.step("reversed", (job(2, 0.0), job(1, 5.0)), ["arrival_s"])
    assert [j.job_id for j in after.jobs] == ["002", "001"]
    assert after.history == ("reversed",)
    assert after.generated == {"arrival_s"}
    assert before.history == ()

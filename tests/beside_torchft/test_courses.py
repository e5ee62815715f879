"""What a scale-out and a death cost, from steps that were written down or drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bench.torchft.courses import Course, CourseError, Step, costs


def course(alone=0.1, whole=0.2, switch=0.0, warm=0.0, recovery=0.0, noise=0.0):
    """45 steps alone, 3 more while the newcomer prepares, 30 with it, 25 without it again.

    Args:
        alone: a step alone, seconds.
        whole: a step with it.
        switch: how much longer its first step takes.
        warm: the same of its second.
        recovery: the same of the step in which it dies.
        noise: the same of a step before it is asked for.
    """
    took = [(alone, 1)] * 40 + [(alone + noise, 1)] + [(alone, 1)] * 7
    took += [(whole + switch, 2), (whole + warm, 2), *[(whole, 2)] * 28]
    took += [(alone + recovery, 1), *[(alone, 1)] * 24]
    steps, now = [], 0.0
    for seconds, workers in took:
        steps.append(Step(now, now + seconds, workers))
        now += seconds
    return Course(
        steps,
        asked_s=steps[44].ended_s + alone / 2,
        killed_s=steps[77].ended_s + alone / 4,
    )


def test_where_nothing_waits_nothing_is_lost():
    found = costs(course())
    assert found["step_s"] == pytest.approx(0.1)
    assert found["step_all_s"] == pytest.approx(0.2)
    assert found["scaling_time_s"] == pytest.approx(0.25 + 0.2)  # two and a half steps, the first
    assert found["recovery_s"] == pytest.approx(-0.025)  # killed a quarter of a step into one
    for key in ("noise_s", "stopping_time_s"):
        assert found[key] == pytest.approx(0.0, abs=1e-9)


@given(
    alone=st.floats(0.005, 1.0),
    whole=st.floats(0.005, 1.0),
    switch=st.floats(0.0, 5.0),
    warm=st.floats(0.0, 5.0),
    recovery=st.floats(0.0, 5.0),
    noise=st.floats(0.0, 5.0),
)
def test_what_waits_is_found(alone, whole, switch, warm, recovery, noise):
    found = costs(course(alone, whole, switch, warm, recovery, noise))
    assert found["noise_s"] == pytest.approx(noise, abs=1e-6)
    assert found["stopping_time_s"] == pytest.approx(max(switch, warm), abs=1e-6)
    assert found["scaling_time_s"] == pytest.approx(2.5 * alone + whole + switch, abs=1e-6)
    assert found["recovery_s"] == pytest.approx(recovery - alone / 4, abs=1e-6)


@pytest.mark.parametrize(
    ("num_steps", "told"),
    [(60, "25 steps before the request, 12 with all workers and 0"), (80, "30 .* and 2 after")],
)
def test_a_course_that_was_left_is_said(num_steps, told):
    whole = course()
    with pytest.raises(CourseError, match=told):
        costs(Course(whole.steps[:num_steps], whole.asked_s, whole.killed_s))

"""Samples lost, on step logs worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics.samples_lost import lost_between, samples_lost, undisturbed, window_of
from harness.results.records import StepRecord


def steps(*rows: tuple[float, int]) -> list[StepRecord]:
    """Steps of half a second and 10 samples, from (start, workers)."""
    return [
        StepRecord("a", number, workers, 10, start, 0.5, (0.0).hex())
        for number, (start, workers) in enumerate(rows)
    ]


OLD = [(float(at), 1) for at in range(10)]  # one step a second: 10 samples/s


def test_a_stop_of_four_seconds():
    """Requested at 9.5, next step at 13.5 on 2 workers, then one step each 0.5 s."""
    log = steps(*OLD, *[(13.5 + 0.5 * k, 2) for k in range(8)])
    # The fifth new step ends at 16.0: 6.5 s at 10/s undisturbed, 5 steps done.
    assert samples_lost(log, 9.5) == pytest.approx(65.0 - 50.0)


def test_an_earlier_rescale_does_not_blur_the_rate():
    log = steps((-60.0, 4), *OLD, *[(13.5 + 0.5 * k, 2) for k in range(8)])
    assert samples_lost(log, 9.5) == pytest.approx(15.0)


def test_a_migration_is_found_by_its_gap():
    log = steps(*OLD, (10.0, 1), *[(14.0 + k, 1) for k in range(6)])
    # One step after the request, a gap of 3.5 s, the fifth step after it ends at 18.5.
    assert samples_lost(log, 9.5) == pytest.approx(10 * 9.0 - 60.0)


@pytest.mark.parametrize("log", [steps(), steps(*OLD), steps(*OLD, (13.5, 2), (14.0, 2))])
def test_too_few_steps_give_no_number(log):
    assert samples_lost(log, 9.5) is None


def test_the_part_of_a_step_before_the_request_does_not_count():
    """Steps of a full second; the request comes when 0.4 of the step from 10 is done."""
    log = [
        StepRecord("a", number, 1 + (at >= 15), 10, at, 1.0, (0.0).hex())
        for number, at in enumerate([*map(float, range(11)), *map(float, range(15, 25))])
    ]
    # Four seconds without a step, and nothing else: four steps are lost, whenever it was asked.
    assert samples_lost(log, 10.0) == pytest.approx(40.0)
    assert samples_lost(log, 10.4) == pytest.approx(40.0)
    assert samples_lost(log, 10.9) == pytest.approx(40.0)


def steady(count: int, start: float = 0.0) -> list[StepRecord]:
    return [StepRecord("a", k, 1, 10, start + k, 1.0, (0.0).hex()) for k in range(count)]


def test_nothing_is_lost_where_nothing_happens():
    log = steady(60)
    log += [StepRecord("a", k, 2, 10, 62.0 + k, 1.0, (0.0).hex()) for k in range(60)]
    window = window_of(log, 59.25)
    assert window is not None
    assert (window.length_s, window.lost) == (pytest.approx(7.75), pytest.approx(20.0))
    trial = undisturbed(log, [window], "seed", 0)
    assert trial is not None
    assert trial.lost == pytest.approx(0.0, abs=1e-9)
    assert trial.length_s >= window.length_s
    assert trial.requested_s > window.end_s + 10, "after the change, ten steps later"
    assert undisturbed(log, [window], "seed", 0) == trial
    assert undisturbed(log, [window], "other", 0) != trial


def test_a_slow_step_is_seen_by_the_trials_that_hold_it():
    log = steady(40)
    slow = [StepRecord("a", 40, 1, 10, 40.0, 3.0, (0.0).hex())]
    log += slow + [StepRecord("a", 41 + k, 1, 10, 43.0 + k, 1.0, (0.0).hex()) for k in range(30)]
    change = window_of(log, 38.5)
    assert change is not None
    for seed in map(str, range(20)):
        trial = undisturbed(log, [change], seed, 0)
        assert trial is not None
        assert trial.lost == pytest.approx(0.0, abs=1e-9), "after the slow step"
    assert change.lost == pytest.approx(20.0)


def test_no_stretch_is_long_enough():
    log = steady(30) + [StepRecord("a", k, 2, 10, 50.0 + k, 1.0, (0.0).hex()) for k in range(12)]
    window = window_of(log, 29.5)
    assert window is not None
    assert undisturbed(log, [window], "seed", 0) is None


def test_a_slower_size_is_no_loss_of_the_rescale_itself():
    """After the switch every step takes two seconds, and nothing else happens."""
    log = steady(30)
    log += [StepRecord("a", k, 2, 10, 30.0 + 2 * k, 2.0, (0.0).hex()) for k in range(20)]
    window = window_of(log, 28.5)
    assert window is not None
    assert window.lost == pytest.approx(50.0)
    assert window.lost_net == pytest.approx(0.0)
    late = window_of(log[:35], 28.5)
    assert late is not None
    assert late.lost_net is None


def test_the_net_loss_of_a_stop_is_the_stop():
    log = steady(30)
    log += [StepRecord("a", k, 2, 10, 34.0 + 2 * k, 2.0, (0.0).hex()) for k in range(20)]
    window = window_of(log, 28.5)
    assert window is not None
    assert window.lost_net == pytest.approx(40.0)


def slowed_then_stopped() -> list[StepRecord]:
    """A step a second; asked at 30.0, four of two seconds; half a second's stop; then, of half a
    second at the new size, a first one of a whole second."""
    log = steady(30)
    log += [StepRecord("a", 30 + k, 1, 10, 30.0 + 2 * k, 2.0, "0x0p+0") for k in range(4)]
    log += [StepRecord("a", 34, 2, 10, 38.5, 1.0, "0x0p+0")]
    return log + [StepRecord("a", 35 + k, 2, 10, 39.5 + k / 2, 0.5, "0x0p+0") for k in range(20)]


def test_what_is_lost_lies_where_it_was_lost():
    log = slowed_then_stopped()
    window = window_of(log, 30.0)
    assert window is not None
    assert window.lost_net == pytest.approx(40.0 + 5.0 + 10.0)
    assert lost_between(log, window, 30.0, 34.0) == pytest.approx(20.0)
    assert lost_between(log, window, 34.0, 38.0) == pytest.approx(20.0)
    assert lost_between(log, window, 38.0, 38.5) == pytest.approx(5.0)
    assert lost_between(log, window, 38.5, window.end_s) == pytest.approx(10.0)
    assert lost_between(log, window, 0.0, 30.0) == 0.0, "before the request nothing counts"
    late = window_of(log[:40], 30.0)
    assert late is not None
    assert lost_between(log[:40], late, 30.0, 34.0) is None, "the new size's speed is not known"


@given(st.lists(st.floats(30.0, 41.5), max_size=6))
def test_losses_of_parts_add_up_to_that_of_the_whole(bounds: list[float]):
    log = slowed_then_stopped()
    window = window_of(log, 30.0)
    assert window is not None
    ends = sorted([window.requested_s, *bounds, window.end_s])
    parts = [lost_between(log, window, *pair) for pair in pairwise(ends)]
    assert sum(part for part in parts if part is not None) == pytest.approx(window.lost_net)

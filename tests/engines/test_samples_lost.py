"""Samples lost, on step logs worked out by hand."""

from __future__ import annotations

import pytest

from harness.engines.live_observations import samples_lost
from harness.records import StepRecord


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

"""The speed of a live run over that of its profile."""

from dataclasses import replace

import pytest

from harness.engines.live.measured_speed import speed_over_profile
from harness.profiles.curves import Family
from harness.results.records import StepRecord
from tests.replay.worlds import job, profile

KNOWN = replace(profile(), families={**profile().families, "net": Family({8: {1: 16.0, 2: 32.0}})})
"""A step of 8 samples takes 0.5 s on one slot and 0.25 s on two."""


def steps(*, num_workers, count, every_s, batch=8, begin_s=0.0, first_s=0.0):
    """A stretch of steps; the first lasts longer by ``first_s``."""
    starts = [begin_s, *(begin_s + first_s + n * every_s for n in range(1, count))]
    return [
        StepRecord("a", n, num_workers, batch, at_s, every_s, "0x0p+0")
        for n, at_s in enumerate(starts)
    ]


def speed(found, workload="net"):
    spec = job("a", workload=workload)
    return speed_over_profile(KNOWN, [spec], {"a": found})


def test_a_machine_half_as_fast_as_the_profile():
    assert speed(steps(num_workers=1, count=20, every_s=1.0)) == pytest.approx(0.5)


def test_first_steps_and_changes_do_not_count_and_sizes_weigh_by_their_time():
    alone = steps(num_workers=1, count=24, every_s=0.5, first_s=0.1)  # 20 periods, as expected
    both = steps(num_workers=2, count=24, every_s=0.5, begin_s=60.0)  # 20 at half the speed
    assert speed([*alone, *both]) == pytest.approx((20 * 0.5 + 20 * 0.25) / (20 * 0.5 + 20 * 0.5))


def test_what_no_profile_knows_is_not_compared():
    assert speed([]) is None
    assert speed(steps(num_workers=1, count=20, every_s=1.0), workload="recorded") is None
    assert speed(steps(num_workers=1, count=20, every_s=1.0), workload="unheard_of") is None
    of_two_batches = steps(num_workers=1, count=20, every_s=1.0)
    of_two_batches += steps(num_workers=1, count=20, every_s=1.0, batch=16, begin_s=60.0)
    assert speed(of_two_batches) is None

"""A live engine tells of an arrival a moment after it: nobody waits for that, where rounds are."""

from dataclasses import replace

import pytest

from tests.schedulers.world import Recorder, built, deadline_job, periods, run, shipped

LATE_S = 4e-4


class Late(Recorder):
    """A scheduler that sees everything a little later than it was."""

    def decide(self, view):
        return super().decide(replace(view, time_s=view.time_s + LATE_S))


@pytest.mark.parametrize("name", shipped("scheduler"))
def test_who_arrives_as_a_round_begins_is_in_it(name):
    jobs = [deadline_job("first", 0.0, 1, 100.0, 90_000.0)]
    in_time, _ = run(jobs, built("scheduler", name))
    late, _ = run(jobs, Late(built("scheduler", name)))
    assert periods(late, "first")[:1] == periods(in_time, "first")[:1]

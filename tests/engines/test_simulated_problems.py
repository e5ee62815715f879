"""What the simulated engine finds missing in a profile before a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.engines.simulated.options import Simulated
from tests.engines.setups import setup
from tests.replay.worlds import job, profile

CELLS = [{"backend": "other", "preparation_s": 0.0, "pause_s": 1.0}]


def test_a_missing_cost_is_told_before_the_run_unless_costs_are_off():
    world = setup(profile(cells=CELLS), job("a"), job("b"))
    (problem,) = Simulated().problems(world)
    assert "no rescale cost for backend 'stop_resume', start=cold, workload 'recorded'" in problem
    assert Simulated(rescale_cost="zero").problems(world) == []
    assert Simulated(rescale_cost_factor=0.0).problems(world) == []


def test_a_missing_curve_is_told_once():
    jobs = [replace(job(name), workload="unheard_of") for name in ("a", "b")]
    (problem,) = Simulated().problems(setup(profile(), *jobs))
    assert "unheard_of" in problem


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"rescale_cost": "some"}, "known: profile, zero"),
        ({"rescale_cost_factor": -1.0}, ">= 0"),
        ({"checkpoint_every_s": 0.0}, "> 0"),
    ],
)
def test_options_out_of_range(options, fact):
    with pytest.raises(ValueError, match=fact):
        Simulated(**options)

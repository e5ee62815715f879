"""A slot's memory grows by half a copy of the gradients for each virtual worker, and no more."""

import pytest

from harness.contracts.training import WorkloadSpec
from tests.virtual.run_memory import launcher_with, measured, slopes, steps

pytestmark = pytest.mark.long
WIDE = WorkloadSpec("wide", "workloads.wide.Wide", {"state_bytes": 64_000_000})
"""32 MB of gradients, and next to nothing else that a step needs."""


def test_every_virtual_worker_costs_half_a_copy_of_the_gradients():
    """Of memory that is in use: how far malloc's heap grows beside it is left to chance."""
    point = {"heap": "live", "model": "wide", "pool": ""}
    with launcher_with("live") as launcher:
        lines = [
            {**point, **measured(launcher, WIDE, count, steps("live", count))}
            for count in (2, 8, 16)
        ]
    (slope,) = slopes(lines).values()
    assert slope == pytest.approx(0.5, abs=0.02), lines

"""A slot's memory grows by half a copy of the gradients for each virtual worker, and no more; that
of several slots by a copy."""

import pytest

from harness.contracts.workload import WorkloadSpec
from tests.virtual.run_memory import launcher_with, measured, slopes, steps

pytestmark = pytest.mark.long
WIDE = WorkloadSpec("wide", "workloads.wide.Wide", {"state_bytes": 64_000_000})
"""32 MB of gradients, and next to nothing else that a step needs."""


@pytest.mark.parametrize(("num_slots", "copies"), [(1, 0.5), (2, 1.0)])
def test_what_a_virtual_worker_costs_in_copies_of_the_gradients(num_slots, copies):
    """Of memory that is in use: how far malloc's heap grows beside it is left to chance."""
    point = {"heap": "live", "model": "wide", "pool": ""}
    with launcher_with("live") as launcher:
        lines = [
            {**point, **measured(launcher, WIDE, count, steps("live", count), num_slots)}
            for count in (2, 8, 16)
        ]
    (slope,) = slopes(lines).values()
    assert slope == pytest.approx(copies, abs=0.02), lines

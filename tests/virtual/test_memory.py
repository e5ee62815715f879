"""A slot's memory grows by half a copy of the gradients for each virtual worker, and no more."""

import pytest

from harness.contracts.training import WorkloadSpec
from tests.backends.world import warm_launcher
from tests.virtual.run_memory import measured, slopes

pytestmark = pytest.mark.long
WIDE = WorkloadSpec("wide", "workloads.wide.Wide", {"state_bytes": 64_000_000})
"""32 MB of gradients, and next to nothing else that a step needs."""


def test_every_virtual_worker_costs_half_a_copy_of_the_gradients():
    launcher = warm_launcher()
    launcher.open()
    point = {"model": "wide", "pool": ""}
    try:
        lines = [
            {**point, "logical_workers": count, **measured(launcher, WIDE, count)}
            for count in (2, 8, 16)
        ]
    finally:
        launcher.close()
    (slope,) = slopes(lines).values()
    assert slope == pytest.approx(0.5, abs=0.1), lines

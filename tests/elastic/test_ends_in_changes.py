"""A job that ends while others are about to join it."""

import time

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from tests.backends.world import descendants
from tests.elastic.histories import BATCH, STEP_S, check_samples, stop_free

LATE = {"switch_allowance_s": 200.0, "recovery_timeout_s": 300.0}


@pytest.mark.parametrize("transfer", ["background", "peer", "broadcast"])
def test_a_job_that_ends_does_not_wait_for_whom_it_gives_its_state(launcher, tmp_path, transfer):
    """It waited 30 s for a joiner that had the state and waited for a switch."""
    # The joiner has the state at once, and the switch is minutes away.
    world = stop_free(launcher, tmp_path, transfer=transfer, **LATE)
    try:
        world.until_change(world.start((0,), batch=BATCH, step_s=STEP_S))
        world.until_step(10)
        world.ask(ChangeKind.RESCALE, (0, 1), batch=BATCH)
        world.until(lambda report: report.kind is ReportKind.ACCEPTED)
        world.until_step(world.reports[-1].step + 10)
        world.backend.set_target_step("job", 0)
        held_at = time.monotonic()
        end = world.until_end()
        assert end.kind is ReportKind.FINISHED
        assert time.monotonic() - held_at < 10
        check_samples(world.job_dir(), end)
    finally:
        world.backend.close()
    assert descendants() == []

"""What a slot sends of its last step is there until it is sent, however many turns the next has."""

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.contracts.workload import WorkloadSpec
from tests.backends.world import ENDS
from tests.elastic.histories import STEP_S
from tests.virtual.worlds import BATCH, virtual


@pytest.mark.parametrize("slots", [(0,), (0, 1)])
def test_a_joiner_gets_the_gradients_of_a_slot_with_several_workers(launcher, tmp_path, slots):
    """The first turn of the next step wrote over them, and the change failed."""
    world = virtual(launcher, tmp_path)
    workload = WorkloadSpec("slow", "tests.virtual.slow_donor.SlowDonor", {"step_s": STEP_S})
    try:
        world.until_change(
            world.start(slots, seed=7, batch=BATCH, logical_workers=4, workload=workload)
        )
        world.until_step(world.reports[-1].step + 3)
        change = world.ask(ChangeKind.RESCALE, (*slots, 2), batch=BATCH)
        answer = world.until(
            lambda r: (
                r.kind in ENDS or (r.change_id == change and r.kind is not ReportKind.ACCEPTED)
            )
        )
        assert answer.kind is ReportKind.DONE, answer
        world.backend.set_target_step("job", 0)
        assert world.until_end().kind is ReportKind.FINISHED
    finally:
        world.backend.close()

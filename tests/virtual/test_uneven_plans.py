"""Slots that are not equally fast run as many virtual workers as EasyScale's planner gives them."""

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from systems.runtime.wire.step_log import read_consumed, read_lines
from systems.schedulers.easyscale_plans.model import Device
from systems.schedulers.easyscale_plans.plans import Planner
from tests.backends.world import workers
from tests.elastic.histories import STEP_S
from tests.virtual.worlds import SEED, check_same_bits, virtual

NUM_WORKERS, SAMPLES_EACH = 6, 2
BATCH = NUM_WORKERS * SAMPLES_EACH
FAST, SLOW = range(2)
PLANNER = Planner((Device(4.0), Device(1.0)), NUM_WORKERS)
OPTIONS = {"step_s": STEP_S, "width": 100}


def planned(*types):
    """Virtual workers of slots of these types."""
    nums = tuple(types.count(kind) for kind in (FAST, SLOW))
    return PLANNER.virtual_workers(PLANNER.best(nums), types)


def counts_by_generation(world):
    """Virtual workers that the slots ran, from the samples in the workers' own logs."""
    found = {}
    for part in read_consumed(world.job_dir()):
        consumed = sum(stop - start for _, start, stop in part.ranges)
        found.setdefault((part.generation, part.step), []).append(consumed // SAMPLES_EACH)
    last = {generation: tuple(counts) for (generation, _), counts in sorted(found.items())}
    in_order = [line["generation"] for line in read_lines(world.job_dir() / "generations.jsonl")]
    return [last[generation] for generation in in_order]


@pytest.mark.long
@pytest.mark.parametrize(
    "reconfigure", ["stop_free", pytest.param("checkpoint", marks=pytest.mark.soak)]
)
def test_planned_shares_of_the_virtual_workers_keep_the_bits(launcher, tmp_path, reconfigure):
    plans = [planned(FAST, SLOW), planned(SLOW, FAST, SLOW), planned(FAST)]
    assert plans == [(5, 1), (1, 4, 1), (6,)]
    world = virtual(launcher, tmp_path, reconfigure=reconfigure)
    job = {"batch": BATCH, "seed": SEED, "logical_workers": NUM_WORKERS}
    try:
        start = world.start((0, 1), virtual_workers=plans[0], **job, **OPTIONS)
        step = world.until_change(start).step
        for slots, plan in (((1, 2, 3), plans[1]), ((0,), plans[2])):
            world.until_step(step + 5)
            change = world.ask(ChangeKind.RESCALE, slots, batch=BATCH, virtual_workers=plan)
            step = world.until_change(change).step
        world.until_step(step + 5)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    assert counts_by_generation(world) == plans
    check_same_bits(world, tmp_path, end, NUM_WORKERS, BATCH, **OPTIONS)


@pytest.mark.long
def test_a_plan_does_not_outlive_the_death_of_a_slot(launcher, tmp_path):
    world = virtual(launcher, tmp_path)
    job = {"batch": BATCH, "seed": SEED, "logical_workers": NUM_WORKERS}
    try:
        start = world.start((0, 1, 2), virtual_workers=(4, 1, 1), **job, **OPTIONS)
        world.until_step(world.until_change(start).step + 5)
        workers()[0].kill()
        world.until(lambda report: report.kind is ReportKind.SHRUNK)
        world.until_step(world.reports[-1].step + 5)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    assert counts_by_generation(world) == [(4, 1, 1), (3, 3)]
    check_same_bits(world, tmp_path, end, NUM_WORKERS, BATCH, **OPTIONS)

"""A death is recovered bitwise: virtual workers outlive the slots that they were on."""

import random

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from tests.backends.world import workers
from tests.elastic.histories import STEP_S
from tests.virtual.worlds import BATCH, check_same_bits, virtual


def hurt(world, rng, num_deaths):
    """Kill workers at random moments, also while others join; give back what was lost."""
    for _ in range(num_deaths):
        world.until_step(world.reports[-1].step + rng.randint(1, 6))
        victim = rng.choice(workers())
        victim.kill()
        world.until(lambda report: report.kind is ReportKind.SHRUNK)
        slots = tuple(rng.sample(range(4), rng.randint(2, 4)))
        change = world.ask(ChangeKind.RESCALE, slots, batch=BATCH)
        if rng.random() < 0.5:
            for _ in range(rng.randint(0, 10)):
                world.poll(0.01)
            rng.choice(workers()).kill()
        world.until_answered(change)
        world.until_step(world.reports[-1].step + 3)
        answer = None
        while answer is not ReportKind.DONE:  # the last death may become known only now
            change = world.ask(ChangeKind.RESCALE, (0, 1, 2), batch=BATCH)
            answer = world.until_answered(change).kind


@pytest.mark.parametrize(
    ("seed", "num_deaths"),
    [
        (1, 1),
        pytest.param(2, 6, marks=pytest.mark.long),
        pytest.param(3, 6, marks=pytest.mark.soak),
    ],
)
def test_killed_workers_leave_no_trace_in_the_bits(launcher, tmp_path, seed, num_deaths):
    world = virtual(launcher, tmp_path)
    options = {"step_s": STEP_S, "width": 100}
    try:
        world.until_change(world.start((0, 1, 2), seed=7, batch=BATCH, **options))
        hurt(world, random.Random(seed), num_deaths)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    check_same_bits(world, tmp_path, end, 4, BATCH, **options)

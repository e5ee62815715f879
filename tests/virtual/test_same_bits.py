"""Virtual threads on slots that change are stock DistributedDataParallel on N, bit for bit."""

import pytest

from tests.elastic.histories import STEP_S
from tests.virtual.worlds import check_same_bits, live, losses_of, virtual

PLANS = [
    pytest.param(4, [(0,), (0, 1), (0, 1, 2, 3), (2,)], {}, id="4-sgd"),
    pytest.param(3, [(0, 1), (1, 2, 3), (1,)], {"optimizer": "adamw"}, id="3-adamw"),
]
LONG = [
    pytest.param(2, [(0, 1), (2,), (0, 3)], {}, id="2-sgd", marks=pytest.mark.long),
    pytest.param(
        8, [(0, 1, 2), (3,), (0, 1)], {"width": 3000}, id="8-wide", marks=pytest.mark.long
    ),
]


def held_to_stock(launcher, folder, plan, num_workers, backend, **options):
    batch = 3 * num_workers + 1  # shares of different sizes
    world = virtual(launcher, folder, **backend)
    try:
        end = live(world, plan, num_workers, batch=batch, step_s=STEP_S, **options)
    finally:
        world.backend.close()
    check_same_bits(world, folder, end, num_workers, batch, **options)


@pytest.mark.parametrize(("num_workers", "plan", "options"), [PLANS[0], *LONG])
def test_moving_while_the_job_trains(launcher, tmp_path, num_workers, plan, options):
    held_to_stock(launcher, tmp_path, plan, num_workers, {}, **options)


@pytest.mark.parametrize(("num_workers", "plan", "options"), [PLANS[1], *LONG])
def test_moving_by_checkpoints(launcher, tmp_path, num_workers, plan, options):
    backend = {"reconfigure": "checkpoint"}
    held_to_stock(launcher, tmp_path, plan, num_workers, backend, **options)


@pytest.mark.long
def test_a_job_that_never_changes_is_stock_in_its_first_step_too(launcher, tmp_path):
    held_to_stock(launcher, tmp_path, [(0, 1, 2)], 3, {}, width=3000)


@pytest.mark.long
@pytest.mark.parametrize("transfer", ["peer", "broadcast"])
def test_every_transfer(launcher, tmp_path, transfer):
    plan = [(0,), (0, 1, 2), (1, 2, 3)]
    held_to_stock(launcher, tmp_path, plan, 4, {"transfer": transfer})


@pytest.mark.long
def test_samples_fetched_in_advance(launcher, tmp_path):
    backend = {"prefetch_steps": 2, "loader_processes": 2}
    held_to_stock(launcher, tmp_path, [(0, 1), (0,), (1, 2, 3)], 4, backend)


@pytest.mark.long
def test_blocks_are_those_of_logical_workers_whatever_the_slots(launcher, tmp_path):
    """The stock script knows no blocks, so a life with changes is held to one without."""
    lives = []
    for number, plan in enumerate([[(0,)], [(0, 1), (0,), (1, 2, 3)]]):
        world = virtual(launcher, tmp_path / str(number), data_order="blocks", block_samples=8)
        try:
            live(world, plan, 4, step_s=STEP_S)
        finally:
            world.backend.close()
        lives.append(losses_of(world))
    steps = min(len(losses) for losses in lives)
    assert steps > 8
    assert lives[0][:steps] == lives[1][:steps]

"""Several processes on a slot share its virtual workers, with the bits of N fixed workers."""

import pytest

from harness.contracts.change import ChangeKind
from systems.backends.static import Static
from systems.backends.virtual_thread import VirtualThread
from systems.runtime.wire.options import RuntimeOptions
from systems.runtime.wire.virtual_plan import split_slots
from tests.backends.world import workers
from tests.virtual.worlds import SEED, check_same_bits, losses_of, virtual

NUM_WORKERS, BATCH = 4, 13


def test_a_slot_has_no_more_executors_than_virtual_workers():
    assert split_slots((3, 1), 2) == ((0, 2), (0, 1), (1, 1))
    assert split_slots((2, 2), 1) == ((0, 2), (1, 2))
    assert split_slots((5,), 8) == ((0, 1),) * 5


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="with reconfigure=stop_free every slot has one"):
        VirtualThread(executors=2)
    with pytest.raises(ValueError, match="use 1 for one process"):
        VirtualThread(executors=0, reconfigure="checkpoint")
    with pytest.raises(ValueError, match="only virtual workers can share a slot"):
        RuntimeOptions(executors=2)


def test_a_backend_says_how_many_a_slot_has():
    assert VirtualThread(executors=3, reconfigure="checkpoint").executors == 3
    assert Static().executors == 1


@pytest.mark.long
def test_executors_of_a_slot_keep_the_bits(launcher, tmp_path):
    world = virtual(launcher, tmp_path, reconfigure="checkpoint", executors=2)
    options = {"step_s": 0.02}
    try:
        start = world.start((0, 1), batch=BATCH, seed=SEED, logical_workers=NUM_WORKERS, **options)
        step, counts = world.until_change(start).step, [len(workers())]
        for slots in ((2,), (0, 1, 3)):
            world.until_step(step + 5)
            step = world.do(ChangeKind.RESCALE, slots, batch=BATCH).step
            counts.append(len(workers()))
        world.until_step(step + 5)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    assert counts == [4, 2, 4]
    assert all(len(losses) == NUM_WORKERS for losses in losses_of(world))
    check_same_bits(world, tmp_path, end, NUM_WORKERS, BATCH, **options)

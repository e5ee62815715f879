"""What training scripts do beside plain steps: equal to stock training, or refused."""

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.contracts.workload import WorkloadSpec
from systems.backends.stop_free import StopFree
from systems.backends.virtual_thread import VirtualThread
from systems.backends.warm_restart import WarmRestart
from tests.backends.world import World
from tests.elastic.histories import STEP_S
from tests.virtual.worlds import check_same_bits, live, virtual

PLAN = [(0, 1), (0,), (0, 1, 2)]


def held_to_stock(launcher, folder, backend=None, script=(), **options):
    world = virtual(launcher, folder, **(backend or {}))
    try:
        end = live(world, PLAN, 3, batch=20, step_s=STEP_S, **options)
    finally:
        world.backend.close()
    check_same_bits(world, folder, end, 3, 20, script=script, **options)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"clip": 0.1}, id="clipped gradients and a schedule of learning rates"),
        pytest.param({"autocast": True}, id="bf16 autocast"),
    ],
)
@pytest.mark.long
def test_options_of_a_step(launcher, tmp_path, options):
    held_to_stock(launcher, tmp_path, **options)


@pytest.mark.long
def test_accumulated_gradients(launcher, tmp_path):
    script = ("--accumulate", "3")
    held_to_stock(launcher, tmp_path, {"accumulation_steps": 3}, script)


@pytest.mark.parametrize("reconfigure", ["stop_free", "checkpoint"])
def test_unused_parameters_are_refused_by_name(launcher, tmp_path, reconfigure):
    world = virtual(launcher, tmp_path, reconfigure=reconfigure)
    try:
        world.start((0, 1), unused=True)
        end = world.until_end(ReportKind.FAILED)
    finally:
        world.backend.close()
    assert "1 parameters have no part in the loss, such as idle" in end.reason


@pytest.mark.parametrize("kind", [VirtualThread, StopFree, WarmRestart])
@pytest.mark.parametrize(
    ("refused", "message", "hint"),
    [
        ("sync_batch_norm", "1 modules are SyncBatchNorm, such as 1: ", "or backend=static"),
        ("sparse", "1 modules have sparse gradients, such as 5.table: ", "sparse=False"),
    ],
)
def test_modules_whose_bits_would_be_lost_are_refused_by_name(
    launcher, tmp_path, kind, refused, message, hint
):
    world = World(kind(start="preimported"), launcher, tmp_path)
    try:
        world.start((0, 1), refused=refused)
        end = world.until_end(ReportKind.FAILED)
    finally:
        world.backend.close()
    assert message in end.reason
    assert hint in end.reason


@pytest.mark.parametrize("reconfigure", ["stop_free", "checkpoint"])
def test_a_sparse_gradient_that_no_module_tells_is_refused(launcher, tmp_path, reconfigure):
    world = virtual(launcher, tmp_path, reconfigure=reconfigure)
    try:
        world.start((0, 1), refused="sparse function")
        end = world.until_end(ReportKind.FAILED)
    finally:
        world.backend.close()
    assert "the gradient of 5.table.weight is sparse" in end.reason
    assert "sparse=False" in end.reason


@pytest.mark.long
def test_augmented_samples_from_two_loader_processes(launcher, tmp_path):
    """Beside a DataLoader of two processes in the stock script."""
    target = "workloads.shufflenet.ShuffleNetV2"
    options = {"size": "tiny", "augment": True}
    backend = {"prefetch_steps": 2, "loader_processes": 2}
    world = virtual(launcher, tmp_path, **backend)
    workload = WorkloadSpec("shufflenetv2", target, options)
    try:
        start = world.start((0, 1), batch=12, seed=7, logical_workers=3, workload=workload)
        step = world.until_change(start).step
        world.until_step(step + 4)
        step = world.do(ChangeKind.RESCALE, (0,), batch=12).step
        world.until_step(step + 4)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    script = ("--loaders", "2")
    check_same_bits(world, tmp_path, end, 3, 12, workload=target, script=script, **options)

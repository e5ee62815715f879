"""Jobs on a CUDA device that several slots share: they train there, change, and keep their bits."""

import pytest
import torch

from harness.cluster import uniform_cluster
from harness.contracts.engine import ChangeKind
from harness.contracts.training import ReportKind
from systems.backends.static import Static
from systems.backends.stop_free import StopFree
from systems.backends.stop_resume import StopResume
from systems.backends.virtual_thread import VirtualThread
from systems.backends.warm_restart import WarmRestart
from tests.backends.world import World, descendants, workers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
SHARED = uniform_cluster(
    name="shared", num_hosts=1, devices_per_host=1, slots_per_device=4, device_type="gpu"
)
ON_DEVICE = {"start": "preimported", "device": "cuda"}
STEP_S = 0.02
SLOTS = (0, 1, 2, 3)


@pytest.fixture
def worlds(launcher, tmp_path):
    opened = []

    def make(backend):
        folder = tmp_path / str(len(opened))
        opened.append(World(backend, launcher, folder, SHARED))
        return opened[-1]

    yield make
    for world in opened:
        world.backend.close()
    assert descendants() == []


def ended(world):
    """The job's end some steps from here."""
    world.backend.hold("job", world.reports[-1].step + 5)
    return world.until_end()


def digests(end):
    return {name: value for name, value in end.results.items() if name.startswith("digest_")}


def stock(world, num_steps):
    """The end of as many steps on four fixed workers of stock DistributedDataParallel."""
    world.start(SLOTS, num_steps, step_s=0.0)
    return world.until_end()


@pytest.mark.parametrize("kind", [StopResume, StopFree, WarmRestart, VirtualThread])
def test_a_job_trains_on_the_device_and_changes_its_slots(worlds, kind):
    free_before, _ = torch.cuda.mem_get_info()
    world = worlds(kind(**ON_DEVICE))
    world.until_change(world.start((0,), step_s=STEP_S))
    free_now, _ = torch.cuda.mem_get_info()
    assert free_now < free_before
    for slots in ((0, 1), (1, 2, 3), (2,)):
        world.until_step(world.reports[-1].step + 5)
        world.do(ChangeKind.RESCALE, slots)
    assert set(digests(ended(world))) == {
        "digest_parameters", "digest_buffers", "digest_optimizer"
    }  # fmt: skip


@pytest.mark.parametrize("options", [
    {"transfer": "background"}, {"transfer": "peer"}, {"transfer": "broadcast"},
    {"reconfigure": "checkpoint"},
])  # fmt: skip
def test_virtual_workers_have_the_bits_of_fixed_ones(worlds, options):
    world = worlds(VirtualThread(**ON_DEVICE, random_states="per_step", **options))
    world.until_change(world.start((0,), step_s=STEP_S))
    for slots in ((0, 1), (1, 2, 3)):
        world.until_step(world.reports[-1].step + 5)
        world.do(ChangeKind.RESCALE, slots)
    end = ended(world)
    fixed = stock(worlds(Static(**ON_DEVICE)), end.step)
    assert digests(end) == digests(fixed)


def test_a_killed_worker_leaves_no_trace_in_the_bits(worlds):
    world = worlds(VirtualThread(**ON_DEVICE, random_states="per_step"))
    world.until_change(world.start((0, 1, 2), step_s=STEP_S))
    world.until_step(world.reports[-1].step + 5)
    workers()[0].kill()
    world.until(lambda report: report.kind is ReportKind.SHRUNK)
    end = ended(world)
    fixed = stock(worlds(Static(**ON_DEVICE)), end.step)
    assert digests(end) == digests(fixed)

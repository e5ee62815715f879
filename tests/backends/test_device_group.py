"""The thread that sees device operations end, over real groups; and who is refused NCCL.

NCCL itself needs a machine with several CUDA devices. The group that is watched here is gloo's,
whose operations answer the same questions.
"""

import queue
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from harness.cluster import uniform_cluster
from harness.contracts.backend_reports import ReportKind
from systems.backends.stop_free import StopFree
from systems.runtime.wire.device_group import DeviceGroup, no_device_group
from tests.backends.members import Members, last_word
from tests.backends.world import CLUSTER, World, children, warm_launcher

TIMEOUT = timedelta(seconds=30)
SIZE = 100_000


@pytest.fixture
def members():
    members = Members()
    yield members
    members.end()


def connect(port, rank, size):
    keys = dist.PrefixStore("devices", dist.TCPStore("127.0.0.1", port, wait_for_workers=False))
    return DeviceGroup(dist.ProcessGroupGloo(keys, rank, size, TIMEOUT))


def sums(pipe, port, rank, size):
    group, ended, order = connect(port, rank, size), queue.SimpleQueue(), []
    tensors = [torch.full((SIZE,), float(rank + i)) for i in range(5)]
    for index, tensor in enumerate(tensors):
        group.begin(
            lambda inner, tensor=tensor: inner.allreduce([tensor]),
            lambda failure, index=index: ended.put((index, failure)),
        )
    order = [ended.get(timeout=30) for _ in tensors]
    last_word(pipe, (order, [tensor.unique().tolist() for tensor in tensors]))


def test_ends_are_seen_in_order_and_with_the_sums(members):
    expected = [(index, None) for index in range(5)], [[3.0 + 3 * i] for i in range(5)]
    assert members.together(sums, 3) == [expected] * 3


def left_alone(pipe, port, rank, size):
    group, ended = connect(port, rank, size), queue.SimpleQueue()
    if rank == 1:
        last_word(pipe, "never takes part")
        return
    tensor = torch.ones(SIZE)
    group.begin(lambda inner: inner.allreduce([tensor]), ended.put)
    with pytest.raises(queue.Empty):
        ended.get(timeout=0.5)
    group.abort()
    last_word(pipe, ended.get(timeout=30))


def test_an_abort_ends_what_would_never_end(members):
    assert members.together(left_alone, 2) == ["was aborted", "never takes part"]


def test_a_cpu_has_no_device_group():
    assert no_device_group(torch.device("cpu")) == (
        "it connects CUDA devices, and this worker trains on cpu"
    )


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (CLUSTER, "has CPU slots"),
        (
            uniform_cluster(
                name="shared",
                num_hosts=1,
                devices_per_host=1,
                slots_per_device=2,
                device_type="gpu",
            ),
            "has several slots on one device",
        ),
    ],
)
def test_slots_without_a_device_each_are_refused(cluster, why):
    (problem,) = StopFree(collectives="nccl").problems(cluster)
    assert problem.startswith("collectives is nccl")
    assert why in problem
    assert "use collectives=gloo" in problem


def test_own_devices_are_accepted():
    cluster = uniform_cluster(name="own", num_hosts=2, devices_per_host=4, device_type="gpu")
    assert StopFree(collectives="nccl").problems(cluster) == []


def test_a_worker_without_nccl_says_so(tmp_path):
    before, launcher = children(), warm_launcher()
    launcher.open()
    world = World(StopFree(collectives="nccl", start="preimported"), launcher, tmp_path)
    try:
        change = world.start([0])
        report = world.until_change(change, ReportKind.FAILED)
        assert "collectives is nccl: it connects CUDA devices" in report.reason
    finally:
        world.backend.close()
        launcher.close()
    assert children() == before

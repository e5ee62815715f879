"""Jobs on several fake hosts: as on one machine, whatever the clocks of the hosts say."""

import pytest

from harness.cluster import uniform_cluster
from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from tests.backends.world import World, configured, consumed_ids, expected_ids
from tests.hosts.fake import fake_hosts


@pytest.fixture
def hosts(tmp_path):
    found = fake_hosts(2, tmp_path)
    yield found
    found.close()


@pytest.fixture
def launcher(hosts):
    launcher = configured(
        "launcher",
        "hosts",
        preimport=["tests.backends.tiny_workload"],
        command=hosts.command,
        bind=hosts.driver,
    )
    launcher.open()
    yield launcher
    launcher.close()


@pytest.fixture
def cluster(hosts):
    return uniform_cluster(
        name="fake",
        num_hosts=len(hosts.addresses),
        devices_per_host=2,
        device_type="cpu",
        addresses=hosts.addresses,
    )


def world_of(name, launcher, cluster, hosts, tmp_path, **changes):
    backend = configured("backend", name, bind=hosts.driver, **changes)
    return World(backend, launcher, tmp_path, cluster)


@pytest.mark.parametrize("name", ["static", "stop_resume", "stop_free", "virtual_thread"])
def test_a_job_on_two_hosts_trains_to_its_end(name, launcher, cluster, hosts, tmp_path):
    world = world_of(name, launcher, cluster, hosts, tmp_path)
    try:
        world.until_change(world.start((0, 2), steps=60))
        end = world.until_end()
        assert end.step == 60
        assert sorted(consumed_ids(world, 256)[: 60 * 12]) != []
    finally:
        world.backend.close()

"""Clusters: how slots lie on hosts, and descriptions that are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cluster import joined_cluster, uniform_cluster
from tests.schedulers.world import built, shipped

GOOD = {"name": "c", "num_hosts": 2, "devices_per_host": 2, "device_type": "a100"}


def test_slots_are_numbered_host_by_host_and_device_by_device():
    made = uniform_cluster(**GOOD, slots_per_device=2, hosts_per_rack=1)
    assert made.num_slots == 8
    assert made.host_of == (0, 0, 0, 0, 1, 1, 1, 1)
    assert [slot.device for slot in made.slots] == [0, 0, 1, 1, 0, 0, 1, 1]
    assert {slot.share for slot in made.slots} == {0.5}
    assert [host.rack for host in made.hosts] == [0, 1]
    assert [host.slots for host in made.hosts] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert made.num_hosts_of([0, 3]) == 1
    assert made.num_hosts_of([3, 4]) == 2


SHARED = GOOD | {"slots_per_device": 2, "shared_speed": [1.0, 0.6]}


def test_devices_that_jobs_may_share_have_their_slots_together():
    made = uniform_cluster(**SHARED, cores_per_slot=1, num_cores=2)
    assert made.devices == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert made.device_of == (0, 0, 1, 1, 2, 2, 3, 3)
    assert [slot.cores for slot in made.slots] == [(0,), (0,), (1,), (1,)] * 2
    apart = uniform_cluster(**GOOD, slots_per_device=2)
    assert apart.devices == tuple((slot,) for slot in range(8))
    assert apart.unshared() is apart


def test_who_does_not_share_has_the_same_cluster_with_one_slot_a_device():
    joined = joined_cluster(
        name="c", parts=[uniform_cluster(**SHARED | {"num_hosts": hosts}) for hosts in (1, 2)]
    )
    whole = joined_cluster(
        name="c", parts=[uniform_cluster(**GOOD | {"num_hosts": hosts}) for hosts in (1, 2)]
    )
    assert joined.shared_speed == (1.0, 0.6)
    assert joined.unshared() == whole
    parts = [uniform_cluster(**SHARED), uniform_cluster(**GOOD)]
    with pytest.raises(
        ValueError, match=r"parts differ in shared_speed \(\[\], \[1.0, 0.6\]\); give"
    ):
        joined_cluster(name="c", parts=parts)


BAD = [
    ({"shared_speed": [1.0, 0.6]}, "but a device has 1 slots; give one factor for each number"),
    (SHARED | {"shared_speed": [1.0]}, "but a device has 2 slots; give one factor for each"),
    (SHARED | {"shared_speed": []}, "shared_speed is [], but a device has 2 slots; give one"),
    (SHARED | {"shared_speed": [0.9, 0.6]}, "of a worker alone, so make it 1.0"),
    (SHARED | {"shared_speed": [1.0, 0.0]}, "each factor must be above 0, and no larger than"),
    (SHARED | {"shared_speed": [1.0, 1.1]}, "each factor must be above 0, and no larger than"),
    ({"num_hosts": 0}, "num_hosts is 0; it must be at least 1"),
    ({"devices_per_host": -2}, "devices_per_host is -2; it must be at least 1"),
    ({"slots_per_device": 0}, "slots_per_device is 0; it must be at least 1"),
    ({"hosts_per_rack": 0}, "hosts_per_rack is 0; it must be at least 1"),
    ({"cores_per_slot": -1}, "cores_per_slot is -1; use 0 for workers that are not pinned"),
    ({"cores_per_slot": 2}, "num_cores is 0 but a slot asks for 2 cores; give the cores"),
    ({"cores_per_slot": 4, "num_cores": 3}, "num_cores is 3 but a slot asks for 4 cores"),
    ({"device_type": ""}, "device_type is empty; name the accelerator"),
    (
        {"bandwidth_gbytes_per_s": {"row": 10.0}},
        "unknown bandwidth level 'row'; known: device, host, rack, cluster",
    ),
    (
        {"bandwidth_gbytes_per_s": {"host": 0.0}},
        "bandwidth of level 'host' is 0.0; it must be > 0 GB/s",
    ),
    (
        {"bandwidth_gbytes_per_s": {"rack": float("nan")}},
        "bandwidth of level 'rack' is nan; it must be > 0 GB/s",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_a_wrong_cluster_is_refused_with_place_fact_and_way_out(options, message):
    with pytest.raises(ValueError, match=";") as caught:
        uniform_cluster(**GOOD | options)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_all_problems_of_a_cluster_at_once():
    options = {
        "num_hosts": 0,
        "devices_per_host": 0,
        "slots_per_device": 0,
        "hosts_per_rack": 0,
        "cores_per_slot": 1,
        "device_type": "",
        "bandwidth_gbytes_per_s": {"row": 1.0, "host": -1.0},
    }
    with pytest.raises(ValueError, match="num_hosts") as caught:
        uniform_cluster(**GOOD | options)
    assert len(str(caught.value).splitlines()) == 8


SHIPPED = {
    # name: hosts, slots, device type, slots on one device
    "a100x128": (16, 128, "a100", 1),
    "a100x128_shared": (16, 256, "a100", 2),
    "cpu2": (1, 2, "cpu", 2),
    "cpu4": (1, 4, "cpu", 4),
    "dgx8": (1, 8, "a100", 1),
    "gpu_shared8": (1, 8, "gpu", 8),
    "slots400": (50, 400, "unknown", 1),
    "t4x64": (16, 64, "t4", 1),
}


@pytest.mark.parametrize("name", shipped("cluster"))
def test_every_shipped_cluster_is_built_and_bears_the_name_of_its_file(name):
    made = built("cluster", name)
    assert made.name == name
    assert [slot.slot_id for slot in made.slots] == list(range(made.num_slots))
    assert sorted(slot for host in made.hosts for slot in host.slots) == list(range(made.num_slots))


@pytest.mark.parametrize("name", SHIPPED)
def test_the_sizes_that_the_documentation_promises(name):
    made = built("cluster", name)
    per_device = sum(slot.host == 0 and slot.device == 0 for slot in made.slots)
    found = (len(made.hosts), made.num_slots, made.slots[0].device_type, per_device)
    assert found == SHIPPED[name]


def test_cores_of_the_small_clusters():
    assert [slot.cores for slot in built("cluster", "cpu2").slots] == [(0,), (1,)]
    assert [slot.cores for slot in built("cluster", "cpu4").slots] == [(0,), (1,), (0,), (1,)]


def test_joined_clusters_number_hosts_slots_and_racks_on():
    parts = [
        uniform_cluster(name=t, num_hosts=n, devices_per_host=2, device_type=t, hosts_per_rack=1)
        for t, n in (("a", 2), ("b", 1))
    ]
    made = joined_cluster(name="both", parts=parts)
    assert [slot.slot_id for slot in made.slots] == list(range(6))
    assert made.host_of == (0, 0, 1, 1, 2, 2)
    assert [slot.device_type for slot in made.slots] == ["a"] * 4 + ["b"] * 2
    assert [(host.name, host.rack, host.slots) for host in made.hosts] == [
        ("host000", 0, (0, 1)),
        ("host001", 1, (2, 3)),
        ("host002", 2, (4, 5)),
    ]
    assert made.device_types == ("a", "b")
    with pytest.raises(ValueError, match="parts is empty"):
        joined_cluster(name="none", parts=[])


def test_the_shared_testbed_is_the_testbed_for_who_shares_nothing():
    shared, whole = built("cluster", "a100x128_shared"), built("cluster", "a100x128")
    assert replace(shared.unshared(), name=whole.name) == whole
    assert shared.shared_speed == (1.0, 0.555)
    assert [slot.cores for slot in built("cluster", "cpu2_shared").slots] == [
        (0,),
        (0,),
        (1,),
        (1,),
    ]


@pytest.mark.parametrize("name", shipped("cluster"))
def test_links_are_slower_the_farther_they_go(name):
    """ElasticFlow, section 3.2: in a server, above between servers, not below between racks."""
    speeds = built("cluster", name).bandwidth_gbytes_per_s
    levels = [speeds[level] for level in ("device", "host", "rack", "cluster") if level in speeds]
    assert levels == sorted(levels, reverse=True)
    if {"host", "rack"} <= set(speeds):
        assert speeds["host"] > speeds["rack"]


def test_the_links_of_elasticflows_testbed_are_those_it_states():
    """NVLink 600 GB/s both ways; InfiniBand 200 GB/s a server of eight."""
    speeds = built("cluster", "a100x128").bandwidth_gbytes_per_s
    assert 2 * speeds["host"] == 600
    assert 8 * speeds["rack"] == 200

"""Jobs on slots that share a device: they train there, change, and keep their bits.

Every function takes the device (``cuda`` or ``cpu``) and an empty folder, raises what is wrong
and returns what it measured.
"""

import time
from contextlib import contextmanager

import torch

from harness.cluster import uniform_cluster
from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.contracts.workload import WorkloadSpec
from systems.backends.static import Static
from systems.backends.stop_free import StopFree
from systems.backends.stop_resume import StopResume
from systems.backends.virtual_thread import VirtualThread
from systems.backends.warm_restart import WarmRestart
from tests.backends.world import World, descendants, warm_launcher, workers
from tests.virtual.run_memory import workload

KINDS = {kind.name: kind for kind in (StopResume, WarmRestart, StopFree, VirtualThread)}
STEP_S = 0.02
SLOTS = (0, 1, 2, 3)
SHARED_BY = 2
"""Slots on a device, at least: one that has a device to itself would be joined to others by NCCL,
whose sums have another order."""


def shared_cluster(device, num_slots=4):
    """Slots on one device or, where four can have several, on two."""
    num_devices = 1 if device == "cpu" else min(torch.cuda.device_count(), 4 // SHARED_BY)
    if num_slots % num_devices or num_slots // num_devices < SHARED_BY:
        num_devices = 1
    return uniform_cluster(
        name="shared",
        num_hosts=1,
        devices_per_host=num_devices,
        slots_per_device=num_slots // num_devices,
        device_type="cpu" if device == "cpu" else "gpu",
    )


@contextmanager
def worlds(device, folder, cluster=None):
    """Makes worlds from backends; when it ends, no worker of any may be left."""
    launcher, cluster, opened = warm_launcher(), cluster or shared_cluster(device), []
    launcher.open()

    def make(kind, **options):
        backend = kind(**{"start": "preimported", **options}, device=device)
        opened.append(World(backend, launcher, folder / str(len(opened)), cluster))
        return opened[-1]

    try:
        yield make
    finally:
        for world in opened:
            world.backend.close()
        launcher.close()
    assert not descendants(), "processes of workers are left"


def same_bits(device, folder, model="", **options):
    """Virtual workers whose slots change end with the bits of fixed ones of stock code."""
    spec = workload("tiny", model) if model else None
    with worlds(device, folder) as make:
        world = make(VirtualThread, random_states="per_step", **options)
        world.until_change(_start(world, (0,), spec))
        for slots in ((0, 1), (1, 2, 3), (2,)):
            world.until_step(world.reports[-1].step + 5)
            world.do(ChangeKind.RESCALE, slots)
        end = _ended(world)
        return _held_to_stock(make, end, spec)


def same_bits_after_a_death(device, folder):
    """A killed worker leaves no trace in them."""
    with worlds(device, folder) as make:
        world = make(VirtualThread, random_states="per_step")
        world.until_change(_start(world, (0, 1, 2)))
        world.until_step(world.reports[-1].step + 5)
        workers()[0].kill()
        shrunk = world.until(lambda report: report.kind is ReportKind.SHRUNK)
        end = _ended(world)
        return {"recovery_phases_s": dict(shrunk.phases_s), **_held_to_stock(make, end)}


def changes(device, folder, backend, rounds=4):
    """A job trains on the device and changes its slots; how long each change took."""
    before_bytes = free_bytes(device)
    with worlds(device, folder) as make:
        world = make(KINDS[backend])
        world.until_change(_start(world, (0,)))
        taken_bytes = before_bytes - free_bytes(device)
        assert device == "cpu" or taken_bytes > 0, "the worker is not on the device"
        found = _rounds(world, ((0, 1), (1, 2, 3), (2,), (0,)), rounds)
        assert len(_digests(_ended(world))) == 3
    return {"device_bytes_of_a_worker": taken_bytes, "changes": found}


def state_moved(device, folder, backend, sizes=(10_000_000, 100_000_000), rounds=5, **options):
    """One worker becomes two and two one, with parameters and momentum of so many bytes."""
    found = {}
    for size in sizes:
        spec = WorkloadSpec("wide", "workloads.wide.Wide", {"state_bytes": size})
        with worlds(device, folder / str(size)) as make:
            world = make(KINDS[backend], **options)
            world.until_change(_start(world, (0,), spec))
            found[str(size)] = _rounds(world, ((0, 1), (0,)), rounds)
            _ended(world)
    return {"changes_by_state_bytes": found}


def starts(device, folder, warmth, rounds=3):
    """From the request for a job to the end of its first step, and the phases of that."""
    found = []
    for number in range(rounds):
        with worlds(device, folder / str(number)) as make:
            world = make(StopFree, start=warmth)
            asked_s = time.monotonic()
            done = world.until_change(_start(world, (0, 1)))
            found.append({"seconds": done.at_s - asked_s, "phases_s": dict(done.phases_s)})
            _ended(world)
    return {"starts": found}


def _start(world, slots, spec=None):
    if spec is None:
        return world.start(slots, step_s=STEP_S)
    return world.start(slots, workload=spec)


def _rounds(world, sizes, rounds):
    """Goes through these slots again and again; a line for each change."""
    found, before = [], 1
    for _ in range(rounds):
        for slots in sizes:
            world.until_step(world.reports[-1].step + 5)
            asked_s = time.monotonic()
            done = world.do(ChangeKind.RESCALE, slots)
            found.append(
                {
                    "workers": [before, len(slots)],
                    "seconds": done.at_s - asked_s,
                    "stopping_time_s": done.stopping_time_s,
                    "phases_s": dict(done.phases_s),
                }
            )
            before = len(slots)
    return found


def _ended(world):
    """The job's end some steps from here."""
    world.backend.set_target_step("job", world.reports[-1].step + 5)
    return world.until_end()


def _held_to_stock(make, end, spec=None):
    """As many steps on four fixed workers of stock DistributedDataParallel."""
    fixed = make(Static)
    if spec is None:
        fixed.start(SLOTS, end.step, step_s=0.0)
    else:
        fixed.start(SLOTS, end.step, workload=spec)
    stock, mine = _digests(fixed.until_end()), _digests(end)
    assert len(stock) == 3, f"digests of the stock training: {sorted(stock)}"
    different = sorted(name for name in stock if mine.get(name) != stock[name])
    assert not different, f"after {end.step} steps these differ: {', '.join(different)}"
    return {"steps": end.step, "digests": stock}


def _digests(end):
    return {name: value for name, value in end.results.items() if name.startswith("digest_")}


def free_bytes(device):
    """Of the whole device, whoever holds the rest."""
    return 0 if device == "cpu" else torch.cuda.mem_get_info()[0]

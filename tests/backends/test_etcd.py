"""Jobs whose leader is elected in a real etcd, which may be gone for a while; skipped without."""

from pathlib import Path

import psutil
import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from systems.backends.stop_free import StopFree
from systems.backends.warm_restart import WarmRestart
from tests.backends.world import CLUSTER, World, descendants, workers
from tests.elastic.stores import EtcdProcess


@pytest.fixture
def etcd():
    server = EtcdProcess()
    yield server
    server.kill()


@pytest.fixture
def worlds(launcher, etcd, tmp_path):
    opened = []

    def make(kind=StopFree, **options):
        backend = kind(
            start="preimported", store="etcd", etcd_endpoints=(etcd.endpoint,), **options
        )
        assert backend.problems(CLUSTER) == []
        opened.append(World(backend, launcher, tmp_path / str(len(opened))))
        return opened[-1]

    yield make
    for world in opened:
        world.backend.close()
    assert [process for process in descendants() if process.pid != etcd.pid] == []


def trainers(etcd):
    """In the order of their slots, where all were started together."""
    found = [process for process in workers() if process.pid != etcd.pid]
    return sorted(found, key=lambda process: int(log(process).removeprefix("w")))


def log(process):
    """Name of a worker's log, without its ending."""
    return Path(f"/proc/{process.pid}/fd/1").readlink().stem


def leader(world, etcd):
    """The one job's leader; waits until there is one."""
    while not (found := etcd.keys()):
        world.poll(0.01)
    (address,) = found.values()
    port = int(address.partition("/")[0].rpartition(":")[2])
    for process in trainers(etcd):
        listening = process.net_connections("tcp")
        if any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in listening):
            return process
    raise AssertionError(f"nobody listens at {address}")


def until_shrunk(world):
    shrunk = world.until(lambda r: r.kind in (ReportKind.SHRUNK, ReportKind.LOST))
    assert shrunk.kind is ReportKind.SHRUNK
    return shrunk


@pytest.mark.parametrize("kind", [StopFree, WarmRestart])
def test_workers_come_and_go_and_a_dead_leader_is_replaced(worlds, etcd, kind):
    world = worlds(kind, recovery="exact")
    world.until_change(world.start((0, 1), step_s=0.002))
    world.do(ChangeKind.RESCALE, (0, 1, 2))
    first = leader(world, etcd)
    first.kill()
    shrunk = until_shrunk(world)
    assert leader(world, etcd) != first
    assert world.do(ChangeKind.RESCALE, (0, 1, 2, 3)).step > shrunk.step
    world.do(ChangeKind.RESCALE, (3,))
    world.backend.set_target_step("job", 0)
    world.until_end()


def test_without_etcd_the_job_trains_on_and_newcomers_wait_for_it(worlds, etcd):
    world = worlds()
    step = world.until_change(world.start((0, 1, 2), step_s=0.002)).step
    before = leader(world, etcd)
    led = trainers(etcd).index(before)  # by a worker on any of the three slots
    stay = tuple(slot for slot in range(3) if slot != (led + 1) % 3)
    etcd.stop()
    world.until_step(step + 100)
    world.do(ChangeKind.RESCALE, stay)  # these know who leads
    change = world.ask(ChangeKind.RESCALE, (*stay, 3))  # a newcomer asks etcd
    etcd.start()
    world.until_change(change)
    assert leader(world, etcd) == before


def test_a_recovery_that_needs_a_new_leader_waits_for_etcd(worlds, etcd):
    world = worlds()
    world.until_change(world.start((0, 1, 2), step_s=0.002))
    dead = leader(world, etcd)
    etcd.stop()
    dead.kill()
    # That nothing happens shows in time only.
    assert not any(r.kind is ReportKind.SHRUNK for _ in range(4) for r in world.poll(0.5))
    etcd.start()
    shrunk = until_shrunk(world)
    assert leader(world, etcd) != dead
    assert world.do(ChangeKind.RESCALE, (0, 1, 2)).step > shrunk.step


def test_a_leader_may_leave_while_etcd_is_away(worlds, etcd):
    world = worlds()
    world.until_change(world.start((0, 1), step_s=0.002))
    stays = 1 - [log(process) for process in trainers(etcd)].index(log(leader(world, etcd)))
    etcd.stop()
    world.do(ChangeKind.RESCALE, (stays,))
    change = world.ask(ChangeKind.RESCALE, (stays, 2))  # there is nobody to lead it yet
    etcd.start()
    world.until_change(change)


def test_no_two_lives_of_jobs_meet_and_what_they_leave_expires(worlds, etcd):
    one, other = worlds(), worlds()
    for world in (one, other):
        world.until_change(world.start((0,), step_s=0.002))
    while len(first := set(etcd.keys())) < 2:
        one.poll(0.01)
    for world in (one, other):
        world.do(ChangeKind.SUSPEND)
    one.do(ChangeKind.RESUME, (0,))
    while not (set(etcd.keys()) - first):
        one.poll(0.01)
    one.until_change(one.ask(ChangeKind.STOP))  # kills the workers
    while etcd.keys():
        one.poll(0.1)

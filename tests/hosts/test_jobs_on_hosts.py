"""Jobs on several fake hosts: as on one machine, whatever the hosts' clocks say, until one is lost.

The hosts share the file system of this machine, and nothing else.
"""

import time

import psutil
import pytest

from harness.cluster import uniform_cluster
from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from systems.launchers.hosts.lease import LOST_AFTER_S
from tests.backends.world import World, configured
from tests.hosts.fake import CLOCKS_S, fake_hosts

BACKENDS = ("static", "stop_resume", "stop_free", "virtual_thread")
STEPS = 40
PREIMPORT = ("torch", "torch.distributed", "systems.restart.training_loop")
IMPORTED = [*PREIMPORT, "systems.elastic.worker.loop", "tests.backends.tiny_workload"]


@pytest.fixture
def hosts(tmp_path):
    found = fake_hosts(2, tmp_path)
    yield found
    found.close()


@pytest.fixture
def worlds(hosts, tmp_path):
    """Makes worlds: of the fake hosts with two slots each, or of as many slots of this machine."""
    made = []

    def make(name, *, on_hosts=True, **changes):
        if on_hosts:
            launcher = configured(
                "launcher", "hosts", preimport=IMPORTED, command=hosts.command, bind=hosts.driver
            )
            changes["bind"] = hosts.driver
        else:
            launcher = configured("launcher", "local", preimport=IMPORTED)
        cluster = uniform_cluster(
            name="fake",
            num_hosts=2 if on_hosts else 1,
            devices_per_host=2 if on_hosts else 4,
            device_type="cpu",
            addresses=hosts.addresses if on_hosts else None,
        )
        launcher.open()
        made.append(launcher)
        backend = configured("backend", name, start="preimported", **changes)
        world = World(backend, launcher, tmp_path / str(len(made)), cluster)
        made.append(backend)
        return world

    yield make
    for each in reversed(made):
        each.close()


def digests_of(end):
    return {name: value for name, value in end.results.items() if name.startswith("digest_")}


@pytest.mark.long
@pytest.mark.parametrize("name", BACKENDS)
def test_a_job_on_two_hosts_has_the_bits_of_one_machine(name, worlds):
    ends = []
    for on_hosts in (True, False):
        world = worlds(name, on_hosts=on_hosts)
        world.until_change(world.start((0, 2), steps=STEPS))
        ends.append(world.until_end())
    there, here = ends
    assert (there.step, there.samples) == (here.step, here.samples) == (STEPS, 12 * STEPS)
    assert digests_of(there) == digests_of(here) != {}


@pytest.mark.long
@pytest.mark.parametrize("name", BACKENDS[1:])
def test_changes_over_hosts_with_other_clocks_take_times_that_can_be(name, worlds):
    """The hosts' clocks are hours apart; a difference of two of them would show."""
    world = worlds(name)
    began = time.monotonic()
    answers = [world.until_change(world.start((0,)))]
    for slots in ((0, 2), (2, 3), (1, 3)):
        world.until_step(world.reports[-1].step + 8)
        kind = ChangeKind.RESCALE if len(slots) != len(answers) else ChangeKind.MIGRATE
        answers.append(world.do(kind, slots))
    lasted_s = time.monotonic() - began
    assert lasted_s < min(CLOCKS_S)
    for answer in answers:
        assert answer.phases_s
        assert all(-0.01 <= value <= lasted_s for value in answer.phases_s.values()), answer
    stops_s = [a.stopping_time_s for a in answers if a.stopping_time_s is not None]
    assert stops_s
    assert all(0 <= value <= lasted_s for value in stops_s)
    world.backend.set_target_step("job", 0)
    world.until_end()


@pytest.mark.long
def test_virtual_workers_keep_their_bits_when_they_move_between_hosts(worlds):
    ends = []
    for on_hosts in (True, False):
        world = worlds("virtual_thread", on_hosts=on_hosts)
        # Slow steps on one slot leave time for the change, whatever else the machine does.
        floors = {1: 2.0} if on_hosts else {}
        world.until_change(world.start((0,), steps=STEPS, floors=floors))
        if on_hosts:
            world.until_step(2)
            world.do(ChangeKind.RESCALE, (1, 2, 3))
        ends.append(world.until_end())
    assert digests_of(ends[0]) == digests_of(ends[1]) != {}


@pytest.mark.parametrize(
    "is_cut",
    [True, pytest.param(False, marks=pytest.mark.long)],
    ids=["link_down", "agent_killed"],
)
@pytest.mark.parametrize("name", ["stop_free", pytest.param("stop_resume", marks=pytest.mark.long)])
def test_a_lost_host_costs_its_workers_and_leaves_no_process(name, is_cut, hosts, worlds):
    world = worlds(name, checkpoint_every=5)
    world.until_change(world.start((0, 2)))
    world.until_step(10)
    (lost,) = [p for p in agents() if hosts.addresses[1] in p.cmdline()]
    below = [lost, *lost.children(recursive=True)]
    assert len(below) >= 3  # the agent, its fork server, and a worker
    if is_cut:
        hosts.cut(hosts.addresses[1])
    else:
        lost.kill()
    at_s = time.monotonic()
    kind = ReportKind.SHRUNK if name == "stop_free" else ReportKind.LOST
    told = world.until(lambda report: report.kind is kind, 60.0)
    assert told.at_s - at_s < LOST_AFTER_S + 5.0
    if kind is ReportKind.SHRUNK:
        assert (told.slots, told.lost_slots) == ((0,), (2,))
        world.until_step(told.step + 10)
    else:
        assert told.of_machine
        world.until_change(world.ask(ChangeKind.RESUME, (0, 1)))
        assert world.reports[-1].step > 5
    _, alive = psutil.wait_procs(below, 10.0)
    assert alive == []
    world.backend.set_target_step("job", 0)
    world.until_end()


def agents():
    """Agents of this process's launcher; each sees itself alone, but this machine sees all."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if process.name().startswith("python")
        and "systems.launchers.hosts.agent" in process.cmdline()
    ]

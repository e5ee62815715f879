"""Workers that were spares: when they are made, what they have, and what they leave alone."""

import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from harness.cluster import Cluster
from harness.contracts.change import ChangeKind
from harness.contracts.process import SpareSpec, Warmth
from harness.engines.live.memory_estimate import estimated_memory_bytes
from harness.engines.setup import EngineSetup
from harness.metrics.samples_lost import STEPS_UNTIL_KNOWN
from systems.backends.static import Static
from systems.backends.stop_free import StopFree
from systems.backends.stop_resume import StopResume
from systems.launchers.local import SPARE_BYTES, Local
from systems.runtime.driver.warm_pool import RuntimeSetupError
from tests.backends.world import (
    CLUSTER,
    World,
    pids,
    waiting_spares,
    workers,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", [StopResume, StopFree], ids=lambda kind: kind.name)
def test_workers_are_spares_and_are_replaced_when_training_is_at_rest(worlds, launcher, kind):
    before = launcher.spares()
    world = worlds(kind(start="spare"))
    assert launcher.spares().ready == launcher.spares().wanted == CLUSTER.num_slots
    ready = pids(waiting_spares())
    world.until_change(world.start((0,), step_s=0.01))
    first = pids(workers())
    assert first < ready
    done = world.do(ChangeKind.RESCALE, (0, 1))
    assert pids(workers()) - first < ready
    assert launcher.spares().alive < CLUSTER.num_slots  # nothing is made as long as it counts
    world.until_step(done.step + STEPS_UNTIL_KNOWN)
    while launcher.spares().ready < CLUSTER.num_slots:
        world.poll(0.5)
    assert len(waiting_spares()) == CLUSTER.num_slots
    more = pids(waiting_spares()) - ready
    world.do(ChangeKind.RESCALE, (0, 1, 2, 3))
    assert pids(workers()) <= ready | more
    assert launcher.spares().missed == before.missed


def test_a_change_that_finds_no_spare_is_made_with_forks_and_counted(worlds, launcher):
    world = worlds(StopResume(start="spare"))
    before = launcher.spares()
    for process in waiting_spares():
        process.kill()
    while launcher.spares().ready:
        launcher.ended()
    change = world.start((0, 1))
    world.until_change(change)
    assert launcher.spares().missed == before.missed + 2


def test_a_spare_has_no_thread_no_connection_and_little_memory(worlds):
    worlds(Static(start="spare"))
    for process in waiting_spares():
        assert process.num_threads() == 1
        assert process.net_connections() == []
        assert process.num_fds() == 4  # three streams, and its parent
        assert process.memory_full_info().uss < SPARE_BYTES


def test_what_a_spare_did_before_changes_no_bit(worlds):
    results = []
    for start in ("preimported", "spare"):
        world = worlds(StopResume(start=start))
        world.start((0, 1), steps=30)
        results.append(world.until_end().results)
        world.backend.close()
    assert results[0] == results[1]


def test_a_worker_that_was_a_spare_can_die_as_any_other(worlds):
    world = worlds(StopFree(start="spare"))
    world.until_change(world.start((0, 1, 2), step_s=0.002))
    world.until_step(20)
    random.Random(1).choice(workers()).kill()
    shrunk = world.until(lambda report: report.lost_slots)
    world.do(ChangeKind.RESCALE, (*shrunk.slots, *shrunk.lost_slots))
    assert len(workers()) == 3


def test_spares_that_cannot_be_prepared_refuse_the_backend_in_words(launcher, tmp_path):
    slots = tuple(replace(slot, cores=(4095,)) for slot in CLUSTER.slots)
    cluster = Cluster("odd", CLUSTER.hosts, slots, {})
    with pytest.raises(RuntimeSetupError, match=r"start=spare: .*cannot pin a worker") as caught:
        World(StopResume(start="spare"), launcher, tmp_path, cluster)
    assert "or use start=preimported" in str(caught.value)


def test_closing_the_backend_ends_spares_and_leaves_the_launcher_to_others(worlds, launcher):
    world = worlds(StopResume(start="spare"))
    used = launcher.spares().used
    world.backend.close()
    assert waiting_spares() == []
    world = worlds(StopFree(start="preimported"))
    world.start((0,), steps=5)
    world.until_end()
    assert launcher.spares().used == used


@pytest.mark.parametrize("start", ["spare", pytest.param("standby", marks=pytest.mark.long)])
def test_ctrl_c_leaves_no_process(tmp_path, start):
    driver = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.backends.drive_forever"),
            *("stop_free", start, str(tmp_path)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"training\n"
    below = psutil.Process(driver.pid).children(recursive=True)
    assert len(below) >= 4  # whoever forks, the store, two workers; spares
    driver.send_signal(signal.SIGINT)
    driver.wait(20)
    assert psutil.wait_procs(below, 5)[1] == []


def test_spares_count_in_the_memory_that_a_run_needs(tmp_path):
    def estimate(backend, **options):
        return estimated_memory_bytes(
            EngineSetup(
                cluster=CLUSTER,
                jobs=(),
                profile=None,
                backend=backend,
                launcher=Local(**options),
                workloads={},
                seed=0,
                run_dir=tmp_path,
                memory_bytes_per_worker={},
            )
        )

    assert estimate(StopFree(start="preimported")) == 0
    assert estimate(StopFree(start="spare")) == CLUSTER.num_slots * SPARE_BYTES
    assert estimate(StopFree(start="spare"), spares=2) == 2 * CLUSTER.num_slots * SPARE_BYTES


def test_so_many_for_each_slot_as_the_launcher_is_told():
    launcher = Local(["json"], spares=2)
    launcher.open()
    prepare = "tests.backends.entries:prepare"
    launcher.keep([SpareSpec("127.0.0.1", (), {"A": value}, prepare) for value in "12"])
    while launcher.spares().ready < 4:
        launcher.ended()
        assert not launcher.spares().failure
    launcher.close()
    with pytest.raises(ValueError, match="spares is 0; it must be >= 1"):
        Local(spares=0)


def test_a_backend_says_how_its_workers_start():
    assert StopResume(start="spare").warmth is Warmth.SPARE
    assert Static().warmth is Warmth.COLD

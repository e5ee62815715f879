"""Levels of determinism: what is lost without each treatment, and kept with it (EasyScale, 3.3)."""

from __future__ import annotations

import pytest

from harness.machine.instruction_sets import sets_of_this_machine
from systems.backends.virtual_thread import VirtualThread
from systems.launchers.local import Local
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import World, configured
from tests.virtual.worlds import live, losses_of, reference

STEPS = 12
"""Of each stage, at least."""
NUM_WORKERS, BATCH = 4, 24
WIDTH = {"width": 600}


def differences(world, folder, end, *, batch=BATCH, environment=(), script=(), **options):
    """Steps, from 1, in which the last worker's loss is not that of stock training."""
    losses, digests = reference(
        folder,
        NUM_WORKERS,
        end.step,
        batch,
        script=script,
        environment=dict(environment),
        **options,
    )
    mine = losses_of(world)
    assert len(mine) == len(losses)
    same = {name: end.results[name] for name in digests} == digests
    found = [n + 1 for n, (a, b) in enumerate(zip(mine, losses, strict=True)) if a != b]
    assert same == (not found)
    return found


@pytest.mark.long
def test_d0_is_stock_training_until_the_first_restart(launcher, tmp_path):
    backend = VirtualThread(start="preimported", reconfigure="checkpoint", level="D0")
    world = World(backend, launcher, tmp_path)
    try:
        plan = [(0, 1, 2, 3), (0, 1)]
        end = live(world, plan, NUM_WORKERS, every=STEPS, batch=BATCH, **WIDTH)
    finally:
        world.backend.close()
    restarted = restarts(world)[1]
    different = differences(world, tmp_path, end, **WIDTH)
    assert restarted + 1 < different[0] <= restarted + STEPS, "the first loss is of what was saved"


def restarts(world):
    """Steps after which each generation of the job began."""
    return [line["resumed_at"] for line in read_lines(world.job_dir() / "generations.jsonl")]


@pytest.mark.long
@pytest.mark.parametrize("level", ["D1", pytest.param("D2", marks=pytest.mark.soak), "D0+D2"])
def test_slots_of_two_types(tmp_path, level):
    """Four slots of one type, two of them, one of them and two of another (section 5.1.1)."""
    if not sets_of_this_machine():
        pytest.skip("this machine's CPU is no x86, or Linux says nothing of it")
    cluster = configured("cluster", "cpu_two_types")
    backend = VirtualThread(reconfigure="checkpoint", level=level)
    program = backend.reference(cluster)
    launcher = Local()
    launcher.open()
    world = World(backend, launcher, tmp_path, cluster)
    try:
        plan = [(0, 1, 2, 3), (0, 1), (0, 4, 5)]
        end = live(world, plan, NUM_WORKERS, every=STEPS, batch=BATCH, **WIDTH)
    finally:
        world.backend.close()
        launcher.close()
    first, fewer, mixed = restarts(world)
    assert (first, fewer < mixed) == (0, True)
    words = [word for word in program.words if word == "--common-kernels"]
    different = differences(world, tmp_path, end, environment=program.env, script=words, **WIDTH)
    if level == "D2":
        assert not different
    else:
        begin = mixed if level == "D1" else fewer
        assert begin < different[0] <= begin + STEPS

"""Static trains the very bits of plain DistributedDataParallel; so does stop_resume, however
often it is interrupted at the same size."""

import json
import os
import subprocess
import sys

import pytest

from harness.contracts.change import ChangeKind
from systems.backends.static import Static
from systems.backends.stop_resume import StopResume
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import World

DIGESTS = ("digest_parameters", "digest_buffers", "digest_optimizer")
STEPS, SEED = 40, 11


@pytest.fixture
def worlds(launcher, tmp_path):
    """Makes worlds by name and closes them."""
    opened = []

    def open_world(backend, name):
        world = World(backend, launcher, tmp_path / name)
        opened.append(world)
        return world

    yield open_world
    for world in opened:
        world.backend.close()


def reference(folder, num_workers, batch, optimizer):
    """Digests and losses of the stand-alone script."""
    output = folder / "reference.jsonl"
    command = [
        *(sys.executable, "-m", "systems.peers.plain_ddp", "--bitwise"),
        *("tests.backends.tiny_workload.Tiny", "--options", json.dumps({"optimizer": optimizer})),
        *("--workers", str(num_workers), "--steps", str(STEPS), "--batch", str(batch)),
        *("--seed", str(SEED), "--out", str(output), "--forked"),
    ]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    assert subprocess.run(command, env=environment, timeout=90, check=False).returncode == 0
    *steps, digests = read_lines(output)
    return {"losses": [step["loss"] for step in steps], **digests}


def outcome(world, results):
    """What a run is compared by."""
    lines = {line["step"]: line["loss"] for line in read_lines(world.job_dir() / "steps.jsonl")}
    losses = [lines[step] for step in sorted(lines)]
    return {"losses": losses, **{name: results[name] for name in DIGESTS}}


def trained(world, num_workers, **options):
    """The outcome of a job that was never interrupted."""
    world.start(tuple(range(num_workers)), STEPS, seed=SEED, **options)
    return outcome(world, world.until_end().results)


@pytest.mark.parametrize(
    ("num_workers", "batch", "optimizer"),
    [pytest.param(2, 12, "adamw", marks=pytest.mark.long), (3, 14, "sgd")],
)
def test_static_equals_plain_ddp(worlds, tmp_path, num_workers, batch, optimizer):
    expected = reference(tmp_path, num_workers, batch, optimizer)
    world = worlds(Static(start="preimported"), "static")
    assert trained(world, num_workers, batch=batch, optimizer=optimizer) == expected


@pytest.mark.parametrize(
    ("num_workers", "optimizer"),
    [
        (2, "adamw"),
        (3, "sgd"),
        *(pytest.param(*c, marks=pytest.mark.long) for c in ((1, "sgd"), (2, "sgd"), (4, "adamw"))),
    ],
)
def test_stop_resume_at_the_same_size_equals_uninterrupted_training(worlds, num_workers, optimizer):
    # Wide enough for several gradient buckets' worth of ring segments above two workers.
    options = {"batch": 14, "optimizer": optimizer, "width": 512}
    expected = trained(worlds(Static(start="preimported"), "static"), num_workers, **options)
    world = worlds(StopResume(start="preimported"), "stop_resume")
    slots = tuple(range(num_workers))
    world.until_change(world.start(slots, STEPS, seed=SEED, step_s=0.01, **options))
    world.do(ChangeKind.RESCALE, slots, batch=14)
    world.do(ChangeKind.SUSPEND)
    world.do(ChangeKind.RESUME, tuple(reversed(slots)), batch=14)
    world.do(ChangeKind.RESCALE, slots, batch=14)
    assert outcome(world, world.until_end().results) == expected
    resumed = [line["resumed_at"] for line in read_lines(world.job_dir() / "generations.jsonl")]
    assert len(resumed) == 4
    assert 0 == resumed[0] < resumed[1] < resumed[2] < resumed[3] < STEPS


def test_the_layout_of_buckets_is_what_makes_three_workers_bitwise(worlds):
    options = {"batch": 14, "width": 512}
    expected = trained(worlds(Static(start="preimported"), "static"), 3, **options)
    world = worlds(StopResume(start="preimported", replay_layout=False), "without")
    world.until_change(world.start((0, 1, 2), STEPS, seed=SEED, step_s=0.01, **options))
    world.do(ChangeKind.RESCALE, (0, 1, 2), batch=14)
    found = outcome(world, world.until_end().results)
    assert found["digest_parameters"] != expected["digest_parameters"]


def test_another_seed_size_or_batch_gives_other_bits(worlds):
    world = worlds(Static(start="preimported"), "static")
    found = set()
    for index, (slots, batch, seed) in enumerate(
        [((0, 1), 12, 1), ((0, 1), 12, 2), ((0,), 12, 1), ((0, 1), 14, 1)]
    ):
        job = f"job{index}"
        world.start(slots, STEPS, job_id=job, batch=batch, seed=seed)
        found.add(world.until_end(job_id=job).results["digest_parameters"])
    assert len(found) == 4

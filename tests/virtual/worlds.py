"""Virtual threads at toy size, and the stock script that they are held to."""

import json
import os
import subprocess
import sys

from harness.contracts.change import ChangeKind
from systems.backends.virtual_thread import VirtualThread
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import TINY, World

BATCH = 12
SEED = 7


def reference(
    folder, num_workers, num_steps, batch=BATCH, workload=TINY, script=(), environment=(), **options
):
    """Losses by step and worker, and digests, of stock DistributedDataParallel on N workers."""
    out = folder / "reference.jsonl"
    command = [
        *(sys.executable, "-m", "systems.peers.plain_ddp", workload, "--bitwise", "--forked"),
        *("--options", json.dumps(options), "--workers", str(num_workers)),
        *("--steps", str(num_steps), "--batch", str(batch), "--seed", str(SEED)),
        *("--out", str(out), "--streams", *script),
    ]
    subprocess.run(command, check=True, timeout=1800, env={**os.environ, **dict(environment)})
    *steps, digests = [json.loads(line) for line in out.read_text().splitlines()]
    return [line["losses"] for line in steps], digests


def virtual(launcher, folder, **options):
    """A world of virtual threads."""
    return World(VirtualThread(start="preimported", **options), launcher, folder)


def losses_of(world):
    """Losses by step and worker, of the steps that count."""
    lines = {line["step"]: line for line in read_lines(world.job_dir() / "steps.jsonl")}
    return [lines[step].get("losses", [lines[step]["loss"]]) for step in sorted(lines)]


def live(world, plan, num_workers, *, every=8, batch=BATCH, **options):
    """A job's life on the slots of ``plan``, one after the other; its end."""
    start = world.start(plan[0], batch=batch, seed=SEED, logical_workers=num_workers, **options)
    step = world.until_change(start).step
    for slots in plan[1:]:
        step = world.until_step(step + every).step
        step = max(step, world.do(ChangeKind.RESCALE, slots, batch=batch).step)
    world.until_step(step + every)
    world.backend.set_target_step("job", 0)
    return world.until_end()


def check_same_bits(world, folder, end, num_workers, batch=BATCH, **details):
    """A job that has ended is bitwise the stock one, with every worker's loss in every step."""
    losses, digests = reference(folder, num_workers, end.step, batch, **details)
    mine = losses_of(world)
    different = [n + 1 for n, (a, b) in enumerate(zip(mine, losses, strict=True)) if a != b]
    assert not different
    assert {name: end.results[name] for name in digests} == digests

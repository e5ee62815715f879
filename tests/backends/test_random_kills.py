"""Workers killed at random while their job rescales at random: it ends as it should anyway."""

import random
import time

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.consumed_samples import count_samples
from systems.backends.stop_resume import StopResume
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import World, consumed_ids, descendants, expected_ids

STEPS, BATCH = 120, 12


def some_slots(rng):
    return tuple(rng.sample(range(4), rng.randint(1, 4)))


def live_through(world, rng, num_kills):
    """Kill and rescale at random until the job has ended; returns its last report."""
    change = world.start(some_slots(rng), STEPS, batch=BATCH, step_s=0.002)
    next_blow = time.monotonic()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for report in world.poll(0.01):
            if report.kind is ReportKind.DONE:
                change = None
            elif report.kind is ReportKind.LOST:
                change = world.ask(ChangeKind.RESUME, some_slots(rng))
            elif report.kind in (ReportKind.FINISHED, ReportKind.FAILED):
                return report
        if time.monotonic() < next_blow:
            continue
        next_blow = time.monotonic() + rng.uniform(0.0, 0.3)
        victims = descendants()
        if num_kills and victims and rng.random() < 0.7:
            num_kills -= 1
            rng.choice(victims).kill()
        elif change is None:
            change = world.ask(ChangeKind.RESCALE, some_slots(rng))
    raise AssertionError(f"no end in time: {world.reports[-8:]}")


@pytest.mark.parametrize(
    "seed",
    [
        *range(3),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 10)),
        *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(10, 40)),
    ],
)
def test_no_kill_hangs_a_job_or_loses_or_repeats_a_sample(launcher, tmp_path, seed):
    rng = random.Random(seed)
    world = World(StopResume(start="preimported", checkpoint_every=7), launcher, tmp_path)
    end = live_through(world, rng, num_kills=3)
    assert end.kind is ReportKind.FINISHED, end
    assert (end.step, end.samples) == (STEPS, STEPS * BATCH)
    assert descendants() == []
    assert consumed_ids(world, 97) == expected_ids(end.samples, 97)
    assert count_samples(world.job_dir(), end.step) == (0, 0)
    logged = {line["step"] for line in read_lines(world.job_dir() / "steps.jsonl")}
    assert logged == set(range(1, STEPS + 1))
    world.backend.close()

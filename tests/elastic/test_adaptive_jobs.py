"""Jobs that choose their batch as they train: all workers alike, whatever became of the workers."""

import pytest

from harness.contracts.change import ChangeKind
from harness.contracts.training_order import AdaptiveBatch
from systems.runtime.wire.step_log import read_lines
from tests.elastic.histories import (
    BATCH,
    STEP_S,
    TRANSFERS,
    check_samples,
    forced,
    history,
    stop_free,
)

ADAPTIVE = AdaptiveBatch(BATCH, 8 * BATCH, 10**9, 32.0, 3, 0.5)


@pytest.mark.parametrize(
    "transfer",
    [t if t == "background" else pytest.param(t, marks=pytest.mark.long) for t in TRANSFERS],
)
def test_a_changing_job_has_the_bits_of_its_history(launcher, tmp_path, transfer):
    """Newcomers take part in the choice at once, and replay updates at the rates there were."""
    world = stop_free(launcher, tmp_path / "free", transfer=transfer)
    try:
        start = world.start((0,), batch=BATCH, step_s=STEP_S, adaptive=ADAPTIVE)
        world.until_step(world.until_change(start).step + 12)
        for slots in ((0, 1), (3, 1), (3, 0, 2)):
            done = world.do(ChangeKind.RESCALE, slots, batch=BATCH)
            world.until_step(done.step + 8)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    segments = history(world.job_dir(), end.step)
    assert [segment.num_workers for segment in segments] == [1, 2, 2, 3]
    lines = list(read_lines(world.job_dir() / "steps.jsonl"))
    assert len({line["global_batch"] for line in lines}) > 1
    assert sum(line["global_batch"] for line in lines) == end.samples
    assert end.results == forced(launcher, tmp_path / "forced", segments, adaptive=ADAPTIVE)
    check_samples(world.job_dir(), end)


def test_a_job_ends_with_its_samples_whatever_its_steps(launcher, tmp_path):
    world = stop_free(launcher, tmp_path)
    target = AdaptiveBatch(BATCH, 8 * BATCH, 1_000, 32.0, 3, 0.5)
    world.start((0, 1), steps=1_000, adaptive=target, evaluate_epochs=1.0)
    end = world.until_end()
    world.backend.close()
    assert end.samples == 1_000
    assert end.step < 1_000 / BATCH
    evaluations = list(read_lines(world.job_dir() / "evaluations.jsonl"))
    num_samples = 1_000 / end.results["epochs"]
    last_of_epoch = [int(line["epochs"]) for line in evaluations]
    assert last_of_epoch == list(range(1, int(1_000 // num_samples) + 1))
    assert all("accuracy" in line and line["step"] <= end.step for line in evaluations)

"""Every workload as a real job through rescales in the middle of an epoch, with samples that are
augmented and fetched in advance by processes."""

from statistics import fmean

import pytest
import yaml

from harness.configuration.instantiate import build
from harness.contracts.change import ChangeKind
from harness.contracts.workload import WorkloadSpec
from harness.engines.live.consumed_samples import read_lines
from tests.backends.world import (
    CONFIGS,
    World,
    configured,
    consumed_by_epoch,
    descendants,
    expected_ids,
)

BATCH = 32
NUM_STEPS = {
    "vgg16": 150,
    "vgg19": 250,
    "ncf": 900,
    "yolov3": 120,
    "deepspeech2": 120,
    "transformer": 120,
    "gpt2": 120,
}
"""Until the loss has fallen clearly; others take 60."""


def pool():
    return yaml.safe_load((CONFIGS / "workload" / "tiny.yaml").read_text())["pool"]


SLOW = ("vgg19", "inception3", "shufflenetv2")
"""A minute each, and convolutions like those of others."""


def spec(name):
    options = dict(pool()[name], augment=True, evaluation_samples=64)
    del options["memory_bytes_per_worker"]
    return WorkloadSpec(name, options.pop("_target_"), options)


def num_samples_of(name):
    return build({"_target_": spec(name).target, **spec(name).options}, "workload").num_samples


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.soak if name in SLOW else ()) for name in pool()],
)
def test_each_learns_and_consumes_every_sample_once(catalogue_launcher, tmp_path, name):
    """On one slot, on two and on another one; on fixed slots: test_losses_fall.py."""
    num_steps = NUM_STEPS.get(name, 60)
    backend = configured(
        "backend", "stop_resume", start="preimported", prefetch_steps=2, loader_processes=1
    )
    world = World(backend, catalogue_launcher, tmp_path)
    try:
        world.until_change(world.start((0,), batch=BATCH, workload=spec(name)))
        for slots in ((0, 1), (1,)):
            world.until_step(world.reports[-1].step + num_steps // 3)
            world.do(ChangeKind.RESCALE, slots, batch=BATCH)
        world.until_step(max(num_steps, world.reports[-1].step + num_steps // 3))
        backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        backend.close()
    assert descendants() == []
    lines = list(read_lines(world.job_dir() / "steps.jsonl"))
    assert [line["step"] for line in lines] == list(range(1, end.step + 1))
    assert list(dict.fromkeys(line["world"] for line in lines)) == [1, 2]
    losses = [float.fromhex(line["loss"]) for line in lines]
    assert fmean(losses[-15:]) < 0.9 * fmean(losses[:15])
    check_samples(world, end, num_samples_of(name))


def check_samples(world, end, num_samples):
    """Those of the order, each once in an epoch."""
    assert end.samples == BATCH * end.step
    epochs, num_over = consumed_by_epoch(world, num_samples)
    consumed = [sample for epoch in sorted(epochs) for sample in epochs[epoch]]
    assert sorted(consumed) == sorted(expected_ids(end.samples, num_samples))
    for epoch, ids in epochs.items():
        assert len(set(ids)) == len(ids)
        assert epoch >= num_over or len(ids) == num_samples

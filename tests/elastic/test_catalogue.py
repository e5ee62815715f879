"""Every program of the catalogue, at its tiny size: one that grows and shrinks while it trains
has the bits of its membership history."""

import pytest

from harness.contracts.change import ChangeKind
from tests.backends.world import descendants
from tests.elastic.histories import check_samples, forced, history, stop_free
from tests.virtual.run_memory import names, workload

BATCH = 8
STEPS = 3
"""Between two changes, at least."""


LONG = ("bert", "deepspeech2", "ncf", "resnet50", "swin_t", "vgg16")
"""A program of each kind; the others are for the soak."""


@pytest.mark.long
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(name, marks=() if name in LONG else pytest.mark.soak)
        for name in sorted(names("tiny"))
    ],
)
def test_a_program_that_grows_and_shrinks(catalogue_launcher, tmp_path, model):
    spec = workload("tiny", model)
    world = stop_free(catalogue_launcher, tmp_path / "free")
    try:
        world.until_change(world.start((0,), batch=BATCH, workload=spec))
        for slots in ((0, 1), (1,)):
            done = world.do(ChangeKind.RESCALE, slots, batch=BATCH)
            world.until_step(done.step + STEPS)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
        segments = history(world.job_dir(), end.step)
        assert [segment.num_workers for segment in segments] == [1, 2, 1]
        check_samples(world.job_dir(), end)
    finally:
        world.backend.close()
    assert end.results == forced(catalogue_launcher, tmp_path / "forced", segments, workload=spec)
    assert descendants() == []

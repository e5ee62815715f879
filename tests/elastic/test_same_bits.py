"""Stop-free training gives the bits of its membership history, however the state moved."""

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from harness.contracts.engine import ChangeKind
from tests.elastic.histories import (
    BATCH,
    STEP_S,
    TRANSFERS,
    check_samples,
    forced,
    history,
    run_life,
    stop_free,
)

ONCE = (Phase.explicit, Phase.generate)
"""A life is never the same twice, so there is nothing to make smaller."""


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_growing_moving_and_shrinking_give_the_bits_of_their_history(launcher, tmp_path, transfer):
    world = stop_free(launcher, tmp_path / "free", transfer=transfer)
    try:
        world.until_change(world.start((0,), batch=BATCH, step_s=STEP_S))
        for slots in ((0, 1), (0, 1, 2), (3, 1), (2,), (0, 3)):
            world.do(ChangeKind.RESCALE, slots, batch=BATCH)
        world.backend.hold("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    segments = history(world.job_dir(), end.step)
    assert [segment.num_workers for segment in segments] == [1, 2, 3, 2, 1, 2]
    assert end.results == forced(launcher, tmp_path / "forced", segments)
    check_samples(world.job_dir(), end)


@pytest.mark.parametrize("number", range(2))
def test_random_changes_and_deaths_give_the_bits_of_their_history(launcher, tmp_path, number):
    run_life(launcher, tmp_path, number, "background", 5)


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_fifty_random_lives(launcher, tmp_path_factory, part):
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=ONCE)
    @seed(part)
    @given(st.integers(0, 2**32), st.sampled_from(TRANSFERS))
    def live(number, transfer):
        story = []
        try:
            run_life(launcher, tmp_path_factory.mktemp("life"), number, transfer, 5, story)
        finally:
            print(number, transfer, story)

    live()

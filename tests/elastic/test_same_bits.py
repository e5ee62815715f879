"""Stop-free training gives the bits of its membership history, however the state moved."""

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from tests.backends.world import workers
from tests.elastic.histories import (
    BATCH,
    RECOVERIES,
    STEP_S,
    STOPPED,
    TRANSFERS,
    check_samples,
    forced,
    history,
    run_life,
    stop_free,
)

ONCE = (Phase.explicit, Phase.generate)
"""A life is never the same twice, so there is nothing to make smaller."""


@pytest.mark.parametrize("transfer", [*TRANSFERS, STOPPED])
def test_growing_moving_and_shrinking_give_the_bits_of_their_history(launcher, tmp_path, transfer):
    world = stop_free(launcher, tmp_path / "free", transfer=transfer)
    try:
        world.until_change(world.start((0,), batch=BATCH, step_s=STEP_S))
        for slots in ((0, 1), (0, 1, 2), (3, 1), (2,), (0, 3)):
            world.do(ChangeKind.RESCALE, slots, batch=BATCH)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    segments = history(world.job_dir(), end.step)
    assert [segment.num_workers for segment in segments] == [1, 2, 3, 2, 1, 2]
    assert end.results == forced(launcher, tmp_path / "forced", segments)
    check_samples(world.job_dir(), end)


@pytest.mark.long
def test_a_history_gives_the_same_bits_forced_by_cold_workers(launcher, tmp_path):
    """All others are forced by pre-imported ones, which start sooner."""
    world = stop_free(launcher, tmp_path / "free")
    try:
        world.until_change(world.start((0, 1), batch=BATCH, step_s=STEP_S))
        world.do(ChangeKind.RESCALE, (0, 1, 2), batch=BATCH)
        workers()[1].kill()
        world.until(lambda report: report.kind is ReportKind.SHRUNK)
        world.do(ChangeKind.MIGRATE, (1, 3), batch=BATCH)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    segments = history(world.job_dir(), end.step)
    assert end.results == forced(launcher, tmp_path / "cold", segments, start="cold")
    check_samples(world.job_dir(), end)


@pytest.mark.parametrize("number", range(2))
def test_random_changes_and_deaths_give_the_bits_of_their_history(launcher, tmp_path, number):
    run_life(launcher, tmp_path, number, "background", 5)


@pytest.mark.long
@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.soak), 1])
def test_lives_with_loader_processes_give_the_bits_of_those_without(launcher, tmp_path, number):
    """A loader process that is killed ends its worker, and no more. It needs some seconds until it
    has its data; before that its worker fetches by itself."""
    loaders = {"prefetch_steps": 2, "loader_processes": 1}
    pace = {"step_s": 0.03, "num_steps": 100}
    run_life(launcher, tmp_path, number, "background", 5, pace=pace, **loaders)


@pytest.mark.long
@pytest.mark.parametrize(
    "part", [0, 1, *(pytest.param(part, marks=pytest.mark.soak) for part in range(2, 5))]
)
def test_fifty_random_lives(launcher, tmp_path_factory, part):
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=ONCE)
    @seed(part)
    @given(
        number=st.integers(0, 2**32),
        transfer=st.sampled_from([*TRANSFERS, STOPPED]),
        recovery=st.sampled_from(RECOVERIES),
        hangs=st.booleans(),
        allowance_s=st.sampled_from([0.0, 0.1]),
    )
    def live(number, transfer, recovery, hangs, allowance_s):
        ways = {"transfer": transfer, "recovery": recovery, "hangs": hangs}
        if transfer != STOPPED:
            ways["switch_allowance_s"] = allowance_s
        story = []
        folder = tmp_path_factory.mktemp("life")
        try:
            run_life(launcher, folder, number, num_acts=5, story=story, **ways)
        finally:
            print(number, ways, story)

    live()

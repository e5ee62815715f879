"""Stop-free training gives the bits of its membership history, however the state moved."""

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from harness.contracts.engine import ChangeKind
from harness.engines.consumed import count_samples, read_consumed
from tests.backends.world import warm_launcher
from tests.elastic.histories import BATCH, STEP_S, Life, forced, history, stop_free


@pytest.fixture(scope="module")
def launcher():
    launcher = warm_launcher()
    launcher.open()
    yield launcher
    launcher.close()


def check_samples(job_dir, end):
    """The workers' own logs hold every sample of each whole epoch exactly once."""
    assert count_samples(job_dir, end.step) == (0, 0)
    consumed = [piece for part in read_consumed(job_dir) for piece in part.ranges]
    assert sum(stop - start for _, start, stop in consumed) == end.samples


@pytest.mark.parametrize("transfer", ["background", "peer", "broadcast"])
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
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @seed(part)
    @given(st.integers(0, 2**32), st.sampled_from(["background", "peer", "broadcast"]))
    def live(number, transfer):
        run_life(launcher, tmp_path_factory.mktemp("life"), number, transfer, 8)

    live()


def run_life(launcher, folder, number, transfer, num_acts):
    world = stop_free(launcher, folder / "free", transfer=transfer, recovery="exact")
    try:
        life = Life(world, number)
        for _ in range(num_acts):
            life.rng.choice([life.change, life.change, life.kill])()
        end = life.finish()
    except BaseException:
        print("story:", life.story)
        raise
    finally:
        world.backend.close()
    segments = history(world.job_dir(), end.step)
    assert end.results == forced(launcher, folder / "forced", segments), life.story
    check_samples(world.job_dir(), end)

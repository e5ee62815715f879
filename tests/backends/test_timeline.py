"""EDL's figure 7: what the workers of a job do while another one prepares to join them."""

from harness.contracts.change import ChangeKind
from systems.backends.stop_free import StopFree
from systems.backends.stop_resume import StopResume
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import World

PREPARING = ("spawn", "import", "warm_up", "build")


def grown(backend, launcher, folder):
    """A job that grows from one worker to two: steps that the one made after the request, how
    long the newcomer prepared, and how long the one stood still, in seconds."""
    world = World(backend, launcher, folder)
    try:
        world.until_change(world.start((0,), step_s=0.001))
        asked = world.until_step(20).step
        done = world.do(ChangeKind.RESCALE, (0, 1))
        world.backend.set_target_step("job", 0)
        world.until_end()
    finally:
        world.backend.close()
    lines = read_lines(world.job_dir() / "steps.jsonl")
    alone = max(line["step"] for line in lines if line["world"] == 1)
    prepared_s = sum(done.phases_s.get(phase, 0.0) for phase in PREPARING)
    return alone - asked, prepared_s, done.stopping_time_s


def test_a_stop_free_job_trains_while_another_prepares(launcher, tmp_path):
    free = StopFree(start="preimported", transfer="broadcast")
    assert not set(PREPARING) & set(free.phases.stopped)
    made, prepared_s, _ = grown(free, launcher, tmp_path)
    assert prepared_s > 0
    assert made >= 5, "a step takes some milliseconds, the preparation dozens"


def test_a_job_that_stops_for_it_waits_until_the_other_is_there(launcher, tmp_path):
    _, prepared_s, stopped_s = grown(StopResume(start="preimported"), launcher, tmp_path)
    assert stopped_s > prepared_s > 0

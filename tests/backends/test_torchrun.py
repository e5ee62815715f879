"""What is TorchElastic's own: lost steps, rounds that its agents agree on, agents that die."""

import signal
import time
from itertools import pairwise

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.consumed_samples import count_samples
from harness.files.safe_names import file_name
from systems.backends.torchrun import Torchrun
from systems.launchers.local import Local
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import World, consumed_ids, descendants, expected_ids, workers

EVERY = 10


@pytest.fixture
def world(tmp_path):
    world = World(Torchrun(checkpoint_every=EVERY), Local(), tmp_path)
    yield world
    world.backend.close()
    assert descendants() == []


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"start": "preimported"}, "torchrun can only be cold"),
        ({"start": "spare"}, "torchrun can only be cold"),
        ({"checkpoint_every": 0}, "goes on from the last checkpoint after every change"),
        ({"last_call_timeout_s": 0}, "last_call_timeout_s is 0"),
        ({"monitor_interval_s": 0.0}, "monitor_interval_s is 0.0"),
        ({"max_restarts": -1}, "max_restarts is -1"),
    ],
)
def test_options_out_of_range_are_refused_in_words(options, fact):
    with pytest.raises(ValueError, match=fact):
        Torchrun(**options)


@pytest.mark.parametrize("job_id", ["../up/..", "a$b (中文)", "x" * 240])
@pytest.mark.long
def test_a_job_of_any_name_trains_in_its_own_folder(world, job_id):
    started = world.until_change(world.start((0,), job_id=job_id, step_s=0.002))
    assert started.kind is ReportKind.DONE
    world.until_step(5, job_id)
    assert [path.name for path in world.folder.iterdir()] == [file_name(job_id)]
    assert (world.job_dir(job_id) / "torchelastic").is_dir()


def test_a_worker_trains_saves_and_leaves(world):
    started = world.until_change(world.start((0,), step_s=0.002))
    assert list(started.phases_s) == [
        *("agents", "rendezvous", "spawn"),
        *("import", "build", "group", "load", "first_step"),
    ]
    same = world.ask(ChangeKind.RESCALE, (0,), batch=30)
    refused = world.until(lambda report: report.change_id == same)
    assert refused.kind is ReportKind.FAILED
    assert "agents come or go" in refused.reason
    assert len(workers()) == 1
    assert len(descendants()) == 3  # the store of the rendezvous, and one agent
    world.until_step(25)
    suspended = world.do(ChangeKind.SUSPEND)
    assert set(suspended.phases_s) == {"save", "stop"}
    assert descendants() == []
    assert consumed_ids(world, 97) == expected_ids(suspended.samples, 97)


@pytest.mark.long
def test_changes_of_size_cost_the_steps_since_the_last_checkpoint(world):
    world.until_change(world.start((0, 1), step_s=0.01))
    world.until_step(15)
    rescales = []
    for slots in ((0, 1, 2), (2,), (1, 3)):
        done = world.do(ChangeKind.RESCALE, slots)
        assert len(workers()) == len(slots)
        assert done.step % EVERY == 1  # the first after a checkpoint
        assert {"detect", "stop", "rendezvous", "spawn", "import", "load", "first_step"} <= set(
            done.phases_s
        )
        assert all(seconds >= 0 for seconds in done.phases_s.values())
        assert 0 < done.stopping_time_s < 60
        rescales.append(done)
        world.until_step(done.step + 12)
    world.backend.set_target_step("job", 0)
    end = world.until_end()
    lines = list(read_lines(world.job_dir() / "steps.jsonl"))
    assert len(lines) > end.step  # some were executed twice, and both are on record
    assert {line["step"] for line in lines} == set(range(1, end.step + 1))
    assert list(dict.fromkeys(line["world"] for line in lines)) == [2, 3, 1]
    assert consumed_ids(world, 97) == expected_ids(end.samples, 97)
    assert count_samples(world.job_dir(), end.step) == (0, 0)
    # Which group of steps is which: a gap in the log is the time in which nobody trained.
    switches = [b["started"] - a["started"] - a["duration_s"] for a, b in pairwise(lines)]
    longest = sorted(switches)[-len(rescales) :]
    assert sorted(r.stopping_time_s for r in rescales) == pytest.approx(longest, abs=0.5)


@pytest.mark.long
def test_a_worker_that_dies_is_started_again_and_the_job_keeps_its_size(world):
    world.until_change(world.start((0, 1), step_s=0.01))
    world.until_step(25)
    before = {process.pid for process in workers()}
    workers()[-1].kill()
    generations = world.job_dir() / "generations.jsonl"
    num_before = len(list(read_lines(generations)))
    fallen = world.until(lambda report: len(list(read_lines(generations))) > num_before)
    assert fallen.kind is ReportKind.PROGRESS
    fallen = world.until(lambda report: True)
    assert fallen.kind is ReportKind.PROGRESS
    assert len(workers()) == 2
    assert not before & {process.pid for process in workers()}
    world.until_step(fallen.step + 20)
    world.backend.set_target_step("job", 0)
    end = world.until_end()
    assert consumed_ids(world, 97) == expected_ids(end.samples, 97)


@pytest.mark.long
def test_the_others_go_on_without_an_agent_that_dies(world):
    world.until_change(world.start((0, 1, 3), step_s=0.01))
    world.until_step(25)
    agent = workers()[-1].parent()
    agent.kill()
    while agent.is_running():  # until its end was noticed
        world.poll(0.02)
    retry = world.ask(ChangeKind.RESCALE, (0,))  # nothing can be asked before it has a size again
    answer = world.until(lambda report: report.change_id == retry)
    assert answer.kind is ReportKind.RETRY, answer
    shrunk = world.until(lambda report: report.kind is ReportKind.SHRUNK)
    assert shrunk.at_s - answer.at_s < 0.5, "else whoever asks again is answered again, and again"
    assert len(shrunk.slots) == 2
    assert len(shrunk.lost_slots) == 1
    assert {*shrunk.slots, *shrunk.lost_slots} == {0, 1, 3}
    assert "SIGKILL" in shrunk.reason
    assert shrunk.phases_s["rendezvous"] > 5  # the dead agent's signs of life are waited for
    assert len(workers()) == 2
    world.until_step(shrunk.step + 15)
    world.do(ChangeKind.RESCALE, (*shrunk.slots, shrunk.lost_slots[0]))
    world.backend.set_target_step("job", 0)
    end = world.until_end()
    assert consumed_ids(world, 97) == expected_ids(end.samples, 97)


def wait(is_true, timeout_s=60.0):
    """Without the driver, which hears nothing meanwhile."""
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def told_to_leave_while_it_evaluates(world, marker):
    """A job that has trained all its steps, whose first worker's agent has to leave: that agent.

    The driver has not heard yet that the steps are over.
    """
    world.until_change(world.start((0, 1), step_s=0.01, evaluating_marker=str(marker)))
    world.backend.set_target_step("job", 0)
    wait(marker.exists)
    (first,) = (process for process in workers() if process.environ()["RANK"] == "0")
    agent = first.parent()
    number = int(first.cmdline()[-1])
    first_slot = number - 2  # the store has the first number
    world.ask(ChangeKind.RESCALE, (1 - first_slot,))
    log = world.job_dir() / f"agent-{number:04d}.log"
    wait(lambda: "closing signal SIGTERM" in log.read_text())
    return agent


@pytest.mark.long
def test_a_job_whose_steps_are_over_ends_though_the_agent_of_its_first_worker_has_to_leave(
    world, tmp_path
):
    told_to_leave_while_it_evaluates(world, tmp_path / "evaluating")
    (tmp_path / "evaluating").unlink()
    assert "accuracy" in world.until_end().results


@pytest.mark.long
def test_it_is_lost_where_that_agent_ends_before_the_results_are_known(world, tmp_path):
    told_to_leave_while_it_evaluates(world, tmp_path / "evaluating").kill()
    assert "before its worker had told" in world.until_end(ReportKind.LOST).reason
    assert descendants() == []


@pytest.mark.long
def test_the_last_agent_or_the_store_takes_the_job_with_it(world):
    for number, of in enumerate((lambda: workers()[0].parent(), store)):
        kind = ChangeKind.RESUME if number else None
        if kind is None:
            world.until_change(world.start((0,), step_s=0.01))
        else:
            world.do(kind, (1,))
        world.until_step(world.reports[-1].step + 15)
        of().send_signal(signal.SIGKILL)
        lost = world.until_end(ReportKind.LOST)
        assert "SIGKILL" in lost.reason
        assert lost.step >= EVERY
        assert lost.step % EVERY == 0
        assert descendants() == []


def store():
    (found,) = (
        p for p in descendants() if "systems.runtime.driver.store_server:main" in p.cmdline()
    )
    return found

"""What is torchft's own: losses, samples, replicas that join late, die or leave."""

import time

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.consumed_samples import count_samples
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import consumed_ids, descendants, expected_ids, workers
from tests.torchft.replicas_by_hand import losses


def steps_of(world):
    return list(read_lines(world.job_dir() / "steps.jsonl"))


def by_number(number):
    """Process of a replica, which its log names."""
    ending = f"-{number:03d}.log"
    (found,) = [each for each in workers() if log_of(each).endswith(ending)]
    return found


def log_of(process):
    return next(file.path for file in process.open_files() if "worker-" in file.path)


def end_and_check_samples(world):
    """Every step is on record once, and every sample was consumed once; the end."""
    world.backend.set_target_step("job", 0)
    end = world.until_end()
    assert [line["step"] for line in steps_of(world)] == list(range(1, end.step + 1))
    assert consumed_ids(world, 97) == expected_ids(end.samples, 97)
    assert count_samples(world.job_dir(), end.step) == (0, 0)
    return end


def test_losses_are_those_of_its_rule_whatever_the_membership(world):
    world.until_change(world.start((0,), batch=12, step_s=0.002))
    world.until_step(20)
    world.do(ChangeKind.RESCALE, (0, 1), batch=17)
    world.until_step(world.reports[-1].step + 20)
    by_number(1).kill()
    shrunk = world.until(lambda report: report.kind is ReportKind.SHRUNK)
    world.until_step(shrunk.step + 10)
    world.do(ChangeKind.MIGRATE, (2,), batch=12)
    world.until_step(world.reports[-1].step + 10)
    world.do(ChangeKind.SUSPEND)
    world.do(ChangeKind.RESUME, (1, 3), batch=12)
    end_and_check_samples(world)
    lines = steps_of(world)
    worlds = [line["world"] for line in lines]
    assert list(dict.fromkeys(worlds)) == [1, 2]
    assert {line["global_batch"] for line in lines} == {12, 17}
    expected = losses([(line["world"], line["global_batch"]) for line in lines])
    assert [float.fromhex(line["loss"]) for line in lines] == expected


def test_the_batch_changes_with_the_first_step_of_all_newcomers(world):
    """torchft takes newcomers as they come, so some steps may have only a part of them."""
    world.until_change(world.start((0,), batch=12, step_s=0.002))
    done = world.do(ChangeKind.RESCALE, (0, 1, 2, 3), batch=24)
    assert {"spawn", "import", "build", "group", "load", "quorum", "heal"} <= set(done.phases_s)
    lines = steps_of(world)
    assert all((line["world"] == 4) == (line["global_batch"] == 24) for line in lines)
    assert lines[-1]["world"] == 4
    end_and_check_samples(world)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_step_in_which_a_replica_dies_is_computed_again_by_the_other(world, victim):
    world.until_change(world.start((0, 1), step_s=0.002))
    world.until_step(30)
    killed_at = time.monotonic()
    by_number(victim).kill()
    shrunk = world.until(lambda report: report.kind is ReportKind.SHRUNK)
    assert 0.5 < shrunk.at_s - killed_at < 5.0  # heartbeat_timeout_s, and not much more
    assert shrunk.lost_slots == (victim,)
    assert shrunk.stopping_time_s == pytest.approx(shrunk.phases_s["quorum"])
    end_and_check_samples(world)


@pytest.mark.long
def test_a_newcomer_that_dies_fails_its_change_and_the_job_goes_on(world):
    world.until_change(world.start((0, 1), step_s=0.002))
    world.until_step(20)
    change = world.ask(ChangeKind.RESCALE, (0, 1, 2))
    world.until(lambda report: report.kind is ReportKind.ACCEPTED and report.change_id == change)
    while len(found := workers()) < 3:
        world.poll(0.001)
    max(found, key=lambda process: process.pid).kill()
    failed = world.until(lambda report: report.change_id == change)
    assert failed.kind is ReportKind.FAILED
    assert "SIGKILL" in failed.reason
    world.until_step(failed.step + 20)
    assert len(workers()) == 2
    world.do(ChangeKind.RESCALE, (0, 1, 2))
    end_and_check_samples(world)


@pytest.mark.long
def test_a_replica_that_dies_in_a_change_fails_it_and_the_job_shrinks(world):
    world.until_change(world.start((0, 1), step_s=0.002))
    world.until_step(20)
    change = world.ask(ChangeKind.RESCALE, (0, 1, 2))
    world.until(lambda report: report.kind is ReportKind.ACCEPTED and report.change_id == change)
    by_number(0).kill()
    failed = world.until(lambda report: report.change_id == change)
    assert failed.kind is ReportKind.FAILED
    early = world.ask(ChangeKind.RESCALE, (0,))
    shrunk = world.until(lambda report: report.kind is ReportKind.SHRUNK)
    assert (shrunk.slots, shrunk.lost_slots) == ((1,), (0,))
    (retry,) = [report for report in world.reports if report.change_id == early]
    assert retry.kind is ReportKind.RETRY
    assert len(workers()) == 1
    world.do(ChangeKind.RESCALE, (1, 0))
    end_and_check_samples(world)


@pytest.mark.long
def test_the_lighthouse_takes_the_job_with_it(world):
    world.until_change(world.start((0, 1), step_s=0.002))
    world.until_step(20)
    (lighthouse,) = {*descendants()} - {*workers()}
    lighthouse.kill()
    lost = world.until_end(ReportKind.LOST)
    assert "lighthouse" in lost.reason
    world.do(ChangeKind.RESUME, (1,))  # from scratch: nothing was saved
    world.backend.set_target_step("job", 30)
    end = world.until_end()
    assert consumed_ids(world, 97) == expected_ids(end.samples, 97)


@pytest.mark.long
def test_too_many_replicas_for_the_batch_while_all_move_are_refused(world):
    world.until_change(world.start((0,), batch=3, step_s=0.002))
    change = world.ask(ChangeKind.RESCALE, (1, 2, 3), batch=12)
    refused = world.until(lambda report: report.change_id == change)
    assert refused.kind is ReportKind.FAILED
    assert "4 of them cannot share a global batch of 3" in refused.reason
    world.until_step(refused.step + 5)
    end_and_check_samples(world)


@pytest.mark.long
def test_any_three_of_four_go_on_at_once_when_one_dies(world):
    """All of them drop the broken group, so none waits for its own time-out."""
    world.until_change(world.start((0, 1, 2, 3), step_s=0.002))
    world.until_step(20)
    killed_at = time.monotonic()
    by_number(1).kill()
    shrunk = world.until(lambda report: report.kind is ReportKind.SHRUNK)
    assert shrunk.at_s - killed_at < 5.0
    end_and_check_samples(world)

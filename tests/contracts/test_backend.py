"""The suite of the backend seam: real processes, every file in configs/backend."""

from statistics import median

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import (
    REDOES_STEPS,
    World,
    configured,
    consumed_by_epoch,
    consumed_ids,
    descendants,
    warm_backends,
    workers,
)

CHANGES = {
    ChangeKind.RESCALE: "rescale",
    ChangeKind.MIGRATE: "migrate",
    ChangeKind.SUSPEND: "suspend",
}


def test_a_job_is_accepted_started_reported_and_finished(world):
    change = world.start((0, 1), steps=60, step_s=0.004)
    done = world.until_change(change)
    assert [report.kind for report in world.reports[:2]] == [ReportKind.ACCEPTED, ReportKind.DONE]
    promised = world.backend.phases.start
    assert tuple(phase for phase in done.phases_s if phase in promised) == promised
    assert all(seconds >= 0 for seconds in done.phases_s.values())
    assert (done.step, done.samples) == (1, 12)
    end = world.until_end()
    progress = [report for report in world.reports if report.kind is ReportKind.PROGRESS]
    assert progress
    assert all(0.004 <= report.step_s < 0.5 for report in progress)
    assert [report.step for report in progress] == sorted({report.step for report in progress})
    assert all(report.samples == 12 * report.step for report in progress)
    assert (end.step, end.samples) == (60, 720)
    assert {"digest_parameters", "digest_buffers", "digest_optimizer", "accuracy", "epochs"} == set(
        end.results
    )
    assert descendants() == []


def test_steps_are_logged_with_times_and_exact_losses(world):
    world.start((0, 1), steps=20, digest_every=8)
    world.until_end()
    lines = list(read_lines(world.job_dir() / "steps.jsonl"))
    assert [line["step"] for line in lines] == list(range(1, 21))
    assert all(line["world"] == 2 and line["global_batch"] == 12 for line in lines)
    ends = [line["started"] + line["duration_s"] for line in lines]
    assert all(a <= b["started"] for a, b in zip(ends, lines[1:], strict=False))
    assert all(0 < float.fromhex(line["loss"]) < 10 for line in lines)
    assert [line["step"] for line in read_lines(world.job_dir() / "digests.jsonl")] == [8, 16]


FORKED = [each for each in warm_backends() if each.values[0][1] == {"start": "preimported"}]
"""Backends whose workers are forked, each with its own options."""


@pytest.mark.long
@pytest.mark.parametrize("world", FORKED, indirect=True)
def test_cold_workers_do_the_same_as_forked_ones(world, launcher, tmp_path):
    world.start((0, 1), steps=12)
    warm = world.until_end().results
    cold = World(
        configured("backend", world.backend.name, start="cold"), launcher, tmp_path / "cold"
    )
    cold.start((0, 1), steps=12)
    assert cold.until_end().results == warm
    cold.backend.close()


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_made_if_the_backend_can_and_refused_in_words_if_not(world, kind):
    world.until_change(world.start((0,), step_s=0.002))
    slots = {ChangeKind.RESCALE: (0, 1), ChangeKind.MIGRATE: (2,), ChangeKind.SUSPEND: ()}[kind]
    change = world.ask(kind, slots)
    if getattr(world.backend.abilities, CHANGES[kind]):
        done = world.until_change(change)
        assert (done.stopping_time_s is None) == (kind is ChangeKind.SUSPEND)
        assert len(workers()) == len(slots)
    else:
        refused = world.until(lambda report: report.change_id == change)
        assert refused.kind is ReportKind.FAILED
        assert world.backend.name in refused.reason
        step = refused.step
        assert world.until_step(step + 5).kind is ReportKind.PROGRESS  # it goes on as before


def test_hold_moves_the_target_and_a_past_one_ends_at_the_next_boundary(world):
    world.until_change(world.start((0, 1), steps=30, step_s=0.002))
    world.backend.set_target_step("job", 45)
    assert world.until_end().step == 45
    world.until_change(world.start((0, 1), job_id="other", step_s=0.02))
    seen = world.until_step(5, "other").step
    world.backend.set_target_step("other", 1)
    assert seen <= world.until_end(job_id="other").step <= seen + 30
    world.backend.set_target_step("other", 100)  # long over: means nothing
    world.backend.set_target_step("nobody", 100)


def test_a_target_in_the_past_at_the_start_means_no_step(world):
    world.start((0, 1), steps=0)
    assert world.until_end().step == 0


def test_a_second_change_is_answered_with_retry_and_the_first_goes_on(world):
    first = world.start((0,))
    second = world.ask(ChangeKind.RESUME, (1,))
    retry = world.until(lambda report: report.change_id == second)
    assert retry.kind is ReportKind.RETRY
    assert world.until_change(first).kind is ReportKind.DONE


def test_stop_ends_a_job_in_any_state(world):
    for begun in (False, True):
        start = world.start((0, 1))
        if begun:
            world.until_change(start)
        stop = world.ask(ChangeKind.STOP)
        done = world.until(lambda r, stop=stop: r.change_id == stop and r.kind is ReportKind.DONE)
        assert done.job_id == "job"
        overtaken = [r.kind for r in world.reports if r.change_id == start]
        assert (ReportKind.FAILED in overtaken) == (not begun)
        assert descendants() == []
    world.until_change(world.start((0,)))  # and it can be started again


@pytest.mark.parametrize(
    ("slots", "batch", "fact"),
    [
        ((0, 1, 2), 2, "3 slots cannot share a global batch of 2"),
        ((0, 9), 12, "slots [9] are not in cluster 'four'"),
        ((1, 1), 12, "name a slot twice"),
        ((), 12, "no slots"),
    ],
)
def test_impossible_slots_are_refused_before_anything_starts(world, slots, batch, fact):
    change = world.start(slots, batch=batch)
    refused = world.until(lambda report: report.change_id == change)
    assert refused.kind is ReportKind.FAILED
    assert fact in refused.reason
    assert descendants() == []


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"fail_build": True}, "ValueError: this workload was told to fail"),
        ({"no_such_option": 1}, "no_such_option"),
        ({"num_samples": object()}, "cannot be sent"),
    ],
)
def test_a_workload_that_cannot_be_built_fails_its_start(world, options, fact):
    change = world.start((0, 1), **options)
    failed = world.until(lambda report: report.kind is ReportKind.FAILED)
    assert failed.change_id == change
    assert fact in failed.reason
    assert str(world.job_dir()) in failed.reason
    assert descendants() == []


def test_every_sample_is_consumed_exactly_once(world):
    world.until_change(world.start((0, 1, 2), batch=13))
    if world.backend.abilities.rescale:
        world.do(ChangeKind.RESCALE, (1,), batch=10)
        world.do(ChangeKind.RESCALE, (1, 2), batch=17)
    world.until_step(60)
    world.backend.set_target_step("job", 0)
    end = world.until_end()
    epochs, num_over = consumed_by_epoch(world, 97)
    assert sum(map(len, epochs.values())) == end.samples
    assert num_over >= 1
    for epoch, ids in epochs.items():
        assert len(set(ids)) == len(ids)
        assert epoch >= num_over or sorted(ids) == list(range(97))


def test_two_jobs_at_once_do_not_disturb_each_other(world):
    world.start((0, 1), steps=25)
    world.start((2, 3), steps=25, job_id="other")
    first, second = {}, {}
    while not (first and second):
        end = world.until(lambda report: report.kind is ReportKind.FINISHED)
        (first if end.job_id == "job" else second).update(end.results)
    assert first == second  # same seed, same slots count: same bits
    assert len(consumed_ids(world, 97, job_id="other")) == 25 * 12


def paced(world, job_id, floor_s):
    """The log of a job whose steps are to last ``floor_s``."""
    world.start((0, 1), steps=20, job_id=job_id, floors={1: 9 * floor_s, 2: floor_s})
    end = world.until_end(job_id=job_id)
    lines = list(read_lines(world.job_dir(job_id) / "steps.jsonl"))
    assert end.results["pace_overruns"] == sum(line["late"] for line in lines)
    return lines


def test_late_steps_are_counted_once_whoever_is_first(world):
    """They are those that the job's log has as late."""
    if not world.backend.abilities.rescale:
        pytest.skip(f"{world.backend.name} can neither rescale nor suspend")
    floors = {1: 1e-4, 2: 1e-4}  # each step is late
    began = world.until_change(world.start((0, 1), floors=floors))
    world.until_step(began.step + 15)
    changed = world.do(ChangeKind.RESCALE, (1,))
    world.until_step(changed.step + 15)
    world.backend.set_target_step("job", 0)
    end = world.until_end()
    late = {line["step"] for line in read_lines(world.job_dir() / "steps.jsonl") if line["late"]}
    counted = end.results["pace_overruns"]
    if world.backend.name == "torchrun":  # TorchElastic ends the workers of a round before they
        assert 15 < counted <= len(late)  # can say how many steps were late
    else:
        assert counted == len(late) > 15


def test_paced_steps_take_their_time(world):
    for floor_s in (0.08, 0.4, 2.0):  # slower ones only where the machine cannot keep the pace
        lines = paced(world, f"paced-{floor_s}", floor_s)
        begun = due = lines[0]["started"]
        behind_s = []
        for number, line in enumerate(lines, 1):
            ended = line["started"] + line["duration_s"]
            assert ended > begun + (number - 0.1) * floor_s, f"step {number} ended too soon"
            due += floor_s
            if line["late"]:
                due = max(due, ended - floor_s)
            else:
                behind_s.append(ended - due)
        if len(behind_s) > len(lines) / 2:
            break
    assert len(behind_s) > len(lines) / 2, "most steps are late at any pace"
    # Workers that began apart hold the schedule of the last; some steps may wait for a core.
    assert median(behind_s) - min(behind_s) < floor_s / 4


def test_rescales_in_a_row_keep_count_and_time_their_phases(able_world):
    world = able_world
    if world.backend.name in REDOES_STEPS:
        pytest.skip(f"{world.backend.name} goes back to its last checkpoint: test_torchrun.py")
    world.until_change(world.start((0,), step_s=0.001))
    held, gaps_s = {0}, {}
    for slots in ((0, 1), (0, 1, 2), (2,), (0, 3), (0,)):
        before = world.reports[-1].step
        done = world.do(ChangeKind.RESCALE, slots)
        assert done.step > before
        assert set(world.backend.phases.rescale) <= set(done.phases_s)
        assert all(seconds >= 0 for seconds in done.phases_s.values())
        stopped_s = [done.phases_s.get(phase, 0.0) for phase in world.backend.phases.stopped]
        assert max(stopped_s) <= done.stopping_time_s + 1e-3
        grows = not set(slots) <= held
        gaps_s.setdefault(grows, []).append(abs(done.stopping_time_s - sum(stopped_s)))
        assert len(workers()) == len(slots)
        held = set(slots)
    # A phase that nobody times is missing every time; one that waited for a core is not.
    assert {grows: min(gaps) < 0.05 for grows, gaps in gaps_s.items()} == {True: True, False: True}
    world.backend.set_target_step("job", 0)
    end = world.until_end()
    worlds = [line["world"] for line in read_lines(world.job_dir() / "steps.jsonl")]
    assert list(dict.fromkeys(worlds)) == [1, 2, 3]
    assert len(worlds) == end.step


def test_suspend_leaves_no_process_and_resume_goes_on_from_there(able_world):
    world = able_world
    world.until_change(world.start((0, 1)))
    suspended = world.do(ChangeKind.SUSPEND)
    assert set(suspended.phases_s) == set(world.backend.phases.suspend) == {"save", "stop"}
    assert descendants() == []
    assert world.poll(0.0) == []
    resumed = world.do(ChangeKind.RESUME, (1, 2, 3))
    assert resumed.step == suspended.step + 1
    assert resumed.stopping_time_s is None


def test_the_batch_can_change_on_the_same_slots(able_world):
    world = able_world
    if not world.backend.abilities.change_batch:
        pytest.skip(f"{world.backend.name} cannot change the batch")
    world.until_change(world.start((0, 1), batch=12))
    done = world.do(ChangeKind.RESCALE, (0, 1), batch=30)
    before = done.step - 1
    assert done.samples == 12 * before + 30


def test_a_job_that_finishes_first_overtakes_its_rescale(able_world):
    world = able_world
    world.until_change(world.start((0, 1), step_s=0.02))
    world.backend.set_target_step("job", 0)
    world.ask(ChangeKind.RESCALE, (0,))
    world.until_end()
    assert descendants() == []


def test_a_refused_rescale_leaves_the_job_running(able_world):
    world = able_world
    world.until_change(world.start((0,), batch=3, logical_workers=1, step_s=0.002))
    change = world.ask(ChangeKind.RESCALE, (0, 1, 2, 3), batch=3)
    refused = world.until(lambda report: report.change_id == change)
    assert refused.kind is ReportKind.FAILED
    assert world.until_step(refused.step + 5).kind is ReportKind.PROGRESS


def test_changes_without_workers_are_refused(able_world):
    world = able_world
    world.until_change(world.start((0, 1)))
    world.do(ChangeKind.SUSPEND)
    for kind, slots in ((ChangeKind.RESCALE, (0,)), (ChangeKind.SUSPEND, ())):
        change = world.ask(kind, slots)
        refused = world.until(lambda report, change=change: report.change_id == change)
        assert refused.kind is ReportKind.FAILED
        assert "no workers" in refused.reason
    world.do(ChangeKind.RESUME, (0,))

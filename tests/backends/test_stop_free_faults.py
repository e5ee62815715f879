"""What the driver makes of deaths under stop-free training, with real workers."""

import json
import re
import signal
import time

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.observations import read_accusations
from systems.backends.stop_free import StopFree
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import ENDS, World, descendants, workers
from tests.elastic.histories import DATA, Segment, forced, history


@pytest.fixture
def worlds(launcher, tmp_path):
    opened = []

    def make(**options):
        world = World(StopFree(start="preimported", **options), launcher, tmp_path)
        opened.append(world)
        return world

    yield make
    for world in opened:
        world.backend.close()
    assert descendants() == []


def newcomers(world, before):
    """Workers that are not among these; waits until there are some."""
    while not (found := [process for process in workers() if process not in before]):
        world.poll(0.001)
    return found


def store():
    return next(process for process in descendants() if process not in workers())


def test_without_recovery_a_death_loses_the_job(worlds):
    world = worlds(recovery="none")
    world.until_change(world.start((0, 1), step_s=0.002))
    workers()[0].kill()
    lost = world.until_end(ReportKind.LOST)
    assert "SIGKILL" in lost.reason
    assert descendants() == []
    assert world.do(ChangeKind.RESUME, (0,)).step == 1


def test_a_joiner_that_dies_fails_its_change_and_nothing_else(worlds):
    world = worlds()
    world.until_change(world.start((0,), step_s=0.002))
    before = workers()
    change = world.ask(ChangeKind.RESCALE, (0, 1))
    newcomers(world, before)[0].kill()
    failed = world.until(lambda report: report.kind is ReportKind.FAILED)
    assert failed.change_id == change
    assert "SIGKILL" in failed.reason
    assert workers() == before
    world.do(ChangeKind.RESCALE, (0, 1))
    world.do(ChangeKind.RESCALE, (1,))
    lines = list(read_lines(world.job_dir() / "phases.jsonl"))
    assert [line["role"] for line in lines].count("joiner") == 1
    assert {"spawn", "import", "copy"} <= set(
        next(line["phases_s"] for line in lines if line["role"] == "joiner")
    )


def test_every_worker_of_a_change_has_its_phases(worlds):
    world = worlds()
    world.until_change(world.start((0, 1), step_s=0.002))
    world.do(ChangeKind.RESCALE, (1, 2, 3))
    lines = list(read_lines(world.job_dir() / "phases.jsonl"))
    assert len({line["change_id"] for line in lines}) == 1
    assert len({line["worker"] for line in lines}) == len(lines) == 4
    phases = [(line["role"], set(line["phases_s"])) for line in lines]
    assert sorted(role for role, _ in phases) == ["joiner", "joiner", "leaver", "survivor"]
    of_role = {
        "joiner": {"spawn", "import", "build", "copy", "group", "first_step"},
        "survivor": {"group", "switch", "first_step"},
        "leaver": {"leave"},
    }
    for role, names in phases:
        assert of_role[role] <= names, (role, names)
    assert all(value >= 0 for line in lines for value in line["phases_s"].values())


def test_a_joiner_that_stops_without_an_end_fails_its_change_and_nothing_else(worlds):
    world = worlds(adjust_timeout_s=3.0)
    world.until_change(world.start((0,), step_s=0.002))
    before = workers()
    change = world.ask(ChangeKind.RESCALE, (0, 1))
    newcomers(world, before)[0].suspend()
    failed = world.until(lambda report: report.kind in (ReportKind.FAILED, ReportKind.DONE))
    assert (failed.kind, failed.change_id) == (ReportKind.FAILED, change)
    assert workers() == before
    assert world.until_step(failed.step + 3).kind is ReportKind.PROGRESS


def test_a_member_that_dies_during_a_change_fails_it_then_shrinks_the_grant(worlds):
    world = worlds()
    world.until_change(world.start((0, 1), step_s=0.002))
    before = workers()
    change = world.ask(ChangeKind.RESCALE, (0, 1, 2))
    newcomers(world, before)
    before[0].kill()
    failed = world.until(lambda r: r.kind in (ReportKind.FAILED, ReportKind.SHRUNK))
    assert (failed.kind, failed.change_id) == (ReportKind.FAILED, change)
    shrunk = world.until(lambda r: r.kind in (ReportKind.SHRUNK, ReportKind.LOST))
    assert shrunk.kind is ReportKind.SHRUNK
    assert len(shrunk.slots) == len(workers()) == 1
    assert world.do(ChangeKind.RESCALE, (0, 1)).step > shrunk.step


def test_a_leader_that_leaves_hands_over_and_nobody_waits_for_its_key_to_expire(worlds):
    expiry_s = 120.0
    world = worlds(leader_expiry_s=expiry_s, recovery_timeout_s=2 * expiry_s)
    world.until_change(world.start((0, 1), step_s=0.002))
    asked = time.monotonic()
    world.do(ChangeKind.MIGRATE, (2, 3))  # whoever led has left
    world.do(ChangeKind.RESCALE, (2,))
    world.do(ChangeKind.MIGRATE, (1,))
    assert time.monotonic() - asked < expiry_s / 2


def test_the_store_may_die_and_the_job_can_change_all_the_same(worlds):
    world = worlds()
    world.until_change(world.start((0, 1), step_s=0.002))
    old = store()
    old.kill()
    while not (found := [p for p in descendants() if p not in (*workers(), old)]):
        world.poll(0.01)
    assert len(found) == 1
    world.do(ChangeKind.RESCALE, (0, 1, 2))
    world.do(ChangeKind.RESCALE, (2,))
    world.backend.set_target_step("job", 0)
    world.until_end()


def test_a_store_that_stops_without_an_end_is_replaced(worlds):
    world = worlds()
    world.until_change(world.start((0, 1), step_s=0.002))
    stopped = store()
    stopped.suspend()
    assert world.do(ChangeKind.RESCALE, (0, 1, 2)).step > 1
    assert not stopped.is_running()
    world.backend.set_target_step("job", 0)
    world.until_end()


def test_a_scale_in_that_takes_too_long_is_given_up_and_the_job_goes_on(worlds, launcher):
    """Without a joiner no death can tell the leader. The leader once made the change later, and
    the job was lost.

    The leader goes on before the others. Otherwise they may announce the change before the leader
    reads that it is withdrawn, and an announced change is rightly made.
    """
    world = worlds(adjust_timeout_s=1.0, hang_timeout_s=20.0, recovery_timeout_s=60.0)
    world.until_change(world.start((0, 1, 2), step_s=0.002))
    stopped = workers()
    for process in stopped:
        process.suspend()
    change = world.ask(ChangeKind.RESCALE, (0, 1))
    work = world.backend._driver._jobs["job"]._work
    while not work.adjusting.is_withdrawn:
        assert all(report.kind is not ReportKind.FAILED for report in world.poll(0.05))
    leader = work.process_table.workers[work._leadership._leader]
    launcher.signal(leader.handle, signal.SIGCONT)
    failed = world.until(lambda report: report.kind in (ReportKind.FAILED, ReportKind.DONE))
    for process in stopped:
        process.resume()
    assert (failed.kind, failed.change_id) == (ReportKind.FAILED, change)
    assert failed.reason == "not done within 1.0 s"
    assert len(workers()) == 3
    assert world.do(ChangeKind.RESCALE, (0,)).step > failed.step


def test_a_switch_waits_for_as_many_steps_as_it_is_allowed_for(worlds):
    """Without an allowance it comes with the next step (EDL's T_a)."""
    took_s = []
    for allowance_s in (0.0, 2.0):
        world, job = worlds(switch_allowance_s=allowance_s), {"job_id": f"allowed {allowance_s} s"}
        world.until_change(world.start((0, 1), step_s=0.02, **job))
        world.until_step(20, **job)  # so that the time of a step is known
        asked_at = time.monotonic()
        took_s.append(world.do(ChangeKind.RESCALE, (0,), **job).at_s - asked_at)
    assert took_s[1] > max(1.5, took_s[0])


def test_a_scale_in_that_all_count_on_is_made_however_late(worlds):
    world = worlds(adjust_timeout_s=0.5)
    world.until_change(world.start((0, 1), step_s=1.5))
    world.until_step(2)
    asked_at = time.monotonic()
    assert world.do(ChangeKind.RESCALE, (0,)).at_s - asked_at > 1.0
    assert len(workers()) == 1


@pytest.mark.parametrize("how", ["exact", "consistent"])
def test_a_change_asked_for_while_the_others_recover_fails_and_nothing_else(worlds, how):
    long = {"hang_timeout_s": 20.0, "recovery_timeout_s": 60.0}
    world = worlds(recovery=how, checkpoint_every=5, **long)
    world.until_change(world.start((0, 1, 2), step_s=0.002))
    world.until_step(8)
    stopped, killed, _ = workers()
    stopped.suspend()  # so that the recovery waits for it
    killed.kill()
    work = world.backend._driver._jobs["job"]._work
    while work.recover_by is None:
        world.poll(0.05)
    change = world.ask(ChangeKind.RESCALE, (0, 1))
    stopped.resume()
    failed = world.until(lambda report: report.kind in (ReportKind.FAILED, ReportKind.DONE))
    assert (failed.kind, failed.change_id) == (ReportKind.FAILED, change)
    assert "recover" in failed.reason
    assert world.until(lambda r: r.kind in (ReportKind.SHRUNK, *ENDS)).kind is ReportKind.SHRUNK


def test_a_job_begun_anew_does_not_go_back_to_what_another_has_saved(worlds):
    world = worlds(recovery="consistent", checkpoint_every=5)
    world.until_change(world.start((0, 1), step_s=0.002))
    world.until_step(12)
    stop = world.ask(ChangeKind.STOP)
    world.until(lambda r: r.change_id == stop and r.kind is ReportKind.DONE)
    assert list(world.job_dir().glob("checkpoints/*.json"))
    world.until_change(world.start((0, 1), step_s=0.3))
    workers()[1].kill()
    shrunk = world.until(lambda r: r.kind in (ReportKind.SHRUNK, *ENDS))
    assert shrunk.kind is ReportKind.SHRUNK
    assert shrunk.step < 5


def test_a_job_that_resumes_does_not_go_back_to_what_a_lost_life_had_saved_later(worlds):
    """Its worker died before it could tell of that checkpoint."""
    world = worlds(recovery="consistent", checkpoint_every=5)
    world.until_change(world.start((0, 1), step_s=0.002))
    world.until_step(12)
    suspended = world.do(ChangeKind.SUSPEND).step
    manifest = max((world.job_dir() / "checkpoints").glob("*.json"))
    untold = manifest.with_name("step-00009999.json")
    untold.write_text(json.dumps({**json.loads(manifest.read_text()), "step": 9999}))
    world.do(ChangeKind.RESUME, (0, 1))
    workers()[1].kill()
    shrunk = world.until(lambda r: r.kind in (ReportKind.SHRUNK, *ENDS))
    assert shrunk.kind is ReportKind.SHRUNK, shrunk
    assert suspended <= shrunk.step < 9999
    assert not untold.exists()


def test_a_founder_may_be_late_by_more_than_a_leader_s_and_a_worker_s_silence(worlds, tmp_path):
    """It was killed for not coming to the leader, and the start was lost."""
    limits = {"leader_expiry_s": 0.4, "leader_refresh_s": 0.1, "hang_timeout_s": 0.6}
    world = worlds(**limits)
    late = {"late_build": str(tmp_path / "late"), "late_build_s": 3.0}
    world.until_change(world.start((0, 1), step_s=0.002, **late))
    assert (tmp_path / "late").exists()
    world.until_step(world.reports[-1].step + 5)


@pytest.mark.parametrize("num_killed", [1, 2])
def test_the_store_and_workers_may_die_together(worlds, num_killed):
    world = worlds()
    world.until_change(world.start((0, 1, 2, 3), step_s=0.002))
    for process in [store(), *workers()[:num_killed]]:
        process.kill()
    shrunk = world.until(lambda r: r.kind is ReportKind.SHRUNK and len(r.slots) == 4 - num_killed)
    world.until_step(shrunk.step + 3)
    assert world.do(ChangeKind.RESCALE, (0, 1, 2, 3)).step > shrunk.step
    world.backend.set_target_step("job", 0)
    world.until_end()


@pytest.mark.parametrize("recovery", ["exact", "approximate", "consistent"])
def test_another_says_how_the_job_ended_if_the_first_worker_dies_at_its_end(
    worlds, launcher, tmp_path, recovery
):
    world = worlds(recovery=recovery, checkpoint_every=7, **DATA)
    marker = tmp_path / "died"
    world.start((0, 1, 2), 20, die_evaluating_marker=str(marker))
    end = world.until_end()
    assert marker.exists()
    assert end.step == 20
    assert [line["step"] for line in read_lines(world.job_dir() / "steps.jsonl")][-1] == 20
    # The others may have been about to commit the last step: then they make it again, or what
    # comes after the checkpoint, without the first.
    segments = history(world.job_dir(), 20)
    again = {"exact": 19, "approximate": 19, "consistent": 14}[recovery]
    alone = [Segment(20, 3, 12)], [Segment(again, 3, 12), Segment(20, 2, 12)]
    assert segments in alone
    assert end.results == forced(launcher, tmp_path / "forced", segments)


def test_without_recovery_the_death_of_the_first_worker_at_the_end_loses_the_job(worlds, tmp_path):
    world = worlds(recovery="none")
    world.start((0, 1), 20, die_evaluating_marker=str(tmp_path / "died"))
    assert "SIGKILL" in world.until_end(ReportKind.LOST).reason


@pytest.mark.parametrize("recovery", ["exact", "consistent"])
def test_a_worker_that_dies_while_a_job_suspends_does_not_keep_it_from_that(worlds, recovery):
    world = worlds(recovery=recovery, checkpoint_every=50)
    step = 0
    for start in range(6):
        if start == 0:
            world.until_change(world.start((0, 1, 2), step_s=0.03))
        else:
            assert world.do(ChangeKind.RESUME, (0, 1, 2)).step == step + 1
        world.until_step(step + 8)  # which a way back to a checkpoint may cost
        before = workers()
        change = world.ask(ChangeKind.SUSPEND)
        before[start % 3].kill()
        step = world.until_change(change).step
    assert world.do(ChangeKind.RESUME, (0,)).step == step + 1


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_hangs_is_accused_and_killed(worlds, victim):
    world = worlds(hang_timeout_s=0.5)
    world.until_change(world.start((0, 1), step_s=0.002))
    struck_at = time.monotonic()
    sorted(workers(), key=lambda process: process.pid)[victim].suspend()
    shrunk = world.until(lambda r: r.kind in (ReportKind.SHRUNK, ReportKind.LOST), 20.0)
    assert shrunk.kind is ReportKind.SHRUNK
    assert "SIGKILL" in shrunk.reason
    assert len(workers()) == 1
    started = world.reports[0].at_s
    (kill,) = read_accusations(world.job_dir() / "accusations.jsonl", "job", started)
    assert f"worker {kill.worker.removeprefix('job.')}:" in shrunk.reason
    assert kill.accuser != kill.worker
    assert kill.silent_s > 0.5
    assert struck_at < started + kill.at_s < shrunk.at_s


def test_who_is_killed_and_never_silent_is_accused_by_nobody(worlds):
    world = worlds()
    world.until_change(world.start((0, 1), step_s=0.002))
    workers()[0].kill()
    world.until(lambda r: r.kind is ReportKind.SHRUNK)
    assert read_accusations(world.job_dir() / "accusations.jsonl", "job", 0.0) == []


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"heartbeat_s": 1.1}, "heartbeat_s is 1.1 and hang_timeout_s is 2.0"),
        ({"leader_refresh_s": 1.6}, "leader_refresh_s is 1.6 and leader_expiry_s is 3.0"),
        ({"hang_timeout_s": 16.0}, "hang_timeout_s is 16.0 and recovery_timeout_s is 30.0"),
        ({"leader_expiry_s": 28.0}, "not above leader_expiry_s and hang_timeout_s together (30)"),
        ({"switch_allowance_s": 300.0}, "adjust_timeout_s is 300.0, not above switch_allowance_s"),
        (
            {"switch_allowance_s": 30.0, "transfer": "peer"},
            "recovery_timeout_s is 30.0, not above switch_allowance_s",
        ),
        ({"collective_timeout_s": 2.0}, "not above hang_timeout_s (2.0)"),
        ({"hang_timeout_s": -1.0}, "hang_timeout_s is -1.0; it must be > 0"),
    ],
)
def test_time_outs_in_the_wrong_order_are_refused(options, fact):
    with pytest.raises(ValueError, match=re.escape(fact)):
        StopFree(**options)


def test_wrong_options_are_refused_all_at_once():
    with pytest.raises(ValueError, match="known: background, peer, broadcast") as caught:
        StopFree(
            transfer="pigeon",
            recovery="consistent",
            start="lukewarm",
            leader_expiry_s=1.0,
            leave_timeout_s=0.0,
        )
    assert len(str(caught.value).splitlines()) == 5


def test_an_update_that_cannot_be_replayed_is_refused_in_words_where_it_would_be(worlds):
    world = worlds(transfer="background")
    world.start((0,), optimizer="adafactor")
    failed = world.until(lambda report: report.kind is ReportKind.FAILED)
    assert "Adafactor is not known to allow that; use transfer=peer" in failed.reason
    assert descendants() == []
    world = worlds(transfer="peer")
    world.until_change(world.start((0,), job_id="peer", optimizer="adafactor", step_s=0.002))
    assert world.do(ChangeKind.RESCALE, (0, 1), job_id="peer").step > 1

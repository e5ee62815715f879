"""A state that does not arrive although nobody has died: the others hear of it, and try again."""

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from systems.launchers.local import PREIMPORT, Local
from tests.backends.world import ENDS, descendants, workers
from tests.elastic.breaking import BREAKS, BROKEN
from tests.elastic.histories import BATCH, STEP_S, check_samples, forced, history, stop_free

ANSWERS = {
    "background": (ReportKind.FAILED,),
    "peer": (ReportKind.FAILED, ReportKind.DONE),
}


@pytest.fixture
def breaking(monkeypatch, tmp_path):
    opened = []

    def make(how):
        monkeypatch.setenv(BREAKS, how)
        monkeypatch.setenv(BROKEN, str(tmp_path / "broken"))
        launcher = Local(
            preimport=[*PREIMPORT, "tests.backends.tiny_workload", "tests.elastic.breaking"]
        )
        opened.append(launcher)
        launcher.open()
        return launcher

    yield make
    for launcher in opened:
        launcher.close()


@pytest.mark.parametrize(
    "how",
    ["lose", *(pytest.param(how, marks=pytest.mark.long) for how in ("refuse", "cancel_late"))],
)
def test_a_survivor_that_does_not_get_the_state_is_given_it_again(breaking, tmp_path, how):
    """One waited in vain, and the job was given up after 30 s."""
    launcher = breaking(how)
    world = stop_free(launcher, tmp_path / "free", recovery="exact")
    try:
        world.until_change(world.start((0, 1, 2), batch=BATCH, step_s=STEP_S))
        world.until_step(10)
        assert not (tmp_path / "broken").exists()
        max(workers(), key=lambda process: process.pid).kill()
        shrunk = world.until(lambda report: report.kind in (*ENDS, ReportKind.SHRUNK))
        assert shrunk.kind is ReportKind.SHRUNK, shrunk
        check(world, launcher, tmp_path)
    finally:
        world.backend.close()
    assert descendants() == []


def test_a_survivor_goes_on_from_its_own_state_where_the_one_that_gives_another_dies(
    breaking, tmp_path
):
    """Its own was given up before the other was whole, and the job was lost."""
    launcher = breaking("kill_donor")
    world = stop_free(launcher, tmp_path / "free", recovery="exact")
    try:
        world.until_change(world.start((0, 1, 2), batch=BATCH, step_s=STEP_S))
        world.until_step(10)
        # Not the first: it has the state that the others are given.
        max(workers(), key=lambda process: process.pid).kill()
        while len(workers()) > 1:
            world.until(lambda report: report.kind in (*ENDS, ReportKind.SHRUNK))
            assert world.reports[-1].kind is ReportKind.SHRUNK, world.reports[-1]
        check(world, launcher, tmp_path)
    finally:
        world.backend.close()
    assert descendants() == []


@pytest.mark.parametrize(
    ("how", "transfer"),
    [
        ("refuse", "peer"),
        ("lose", "background"),
        pytest.param("lose", "peer", marks=pytest.mark.long),
        pytest.param("refuse", "background", marks=pytest.mark.long),
    ],
)
def test_a_joiner_that_does_not_get_the_state_joins_or_does_not(breaking, tmp_path, transfer, how):
    """Before the switch is announced the change fails; later, who has switched decides."""
    launcher = breaking(how)
    world = stop_free(launcher, tmp_path / "free", recovery="exact", transfer=transfer)
    try:
        world.until_change(world.start((0,), batch=BATCH, step_s=STEP_S))
        world.until_step(10)
        change = world.ask(ChangeKind.RESCALE, (0, 1), batch=BATCH)
        answer = world.until(lambda r: r.kind in ENDS or r.change_id == change)
        while answer.kind is ReportKind.ACCEPTED:
            answer = world.until(lambda r: r.kind in ENDS or r.change_id == change)
        assert answer.kind in ANSWERS[transfer]
        if answer.kind is ReportKind.FAILED:
            assert "could not meet the others" in answer.reason
        world.until_step(max(report.step for report in world.reports) + 10)
        assert len(workers()) == (2 if answer.kind is ReportKind.DONE else 1)
        check(world, launcher, tmp_path)
    finally:
        world.backend.close()
    assert descendants() == []


def test_a_group_that_is_lost_though_nobody_died_is_built_anew(breaking, tmp_path):
    """All waited for someone to say how to go on, and the job failed after 30 s."""
    launcher = breaking("lose_group")
    world = stop_free(launcher, tmp_path / "free", recovery="exact", hang_timeout_s=1.0)
    try:
        world.until_change(world.start((0, 1, 2), batch=BATCH, step_s=STEP_S))
        members = workers()
        world.until(lambda report: report.kind in ENDS or (tmp_path / "broken").exists())
        world.until_step(max(report.step for report in world.reports) + 10)
        assert workers() == members
        check(world, launcher, tmp_path)
        assert {report.kind for report in world.reports}.isdisjoint({ReportKind.SHRUNK})
    finally:
        world.backend.close()
    assert descendants() == []


def test_a_worker_whose_thread_fails_is_gone_and_the_others_go_on(breaking, tmp_path):
    """It had ended the whole job."""
    launcher = breaking("break_thread")
    world = stop_free(launcher, tmp_path / "free", recovery="exact")
    try:
        world.until_change(world.start((0, 1), batch=BATCH, step_s=STEP_S))
        change = world.ask(ChangeKind.RESCALE, (0, 1, 2), batch=BATCH)
        failed = world.until(lambda r: r.kind in (ReportKind.DONE, *ENDS))
        assert (failed.kind, failed.change_id) == (ReportKind.FAILED, change), failed
        shrunk = world.until(lambda r: r.kind in (ReportKind.SHRUNK, *ENDS))
        assert shrunk.kind is ReportKind.SHRUNK, shrunk
        assert shrunk.slots == (1,)
        assert "MemoryError: no memory for a group" in shrunk.reason
        check(world, launcher, tmp_path)
    finally:
        world.backend.close()
    assert descendants() == []


def test_founders_that_lose_each_other_before_they_begin_lose_the_start(breaking, tmp_path):
    """They had not agreed on what they begin with, so nobody may go on; the job may be resumed."""
    launcher = breaking("lose_founding")
    world = stop_free(launcher, tmp_path / "free", recovery="exact")
    try:
        world.start((0, 1), batch=BATCH, step_s=STEP_S)
        lost = world.until_end(ReportKind.LOST)
        assert "a connection broke" in lost.reason
        assert ReportKind.DONE not in {report.kind for report in world.reports}
        assert descendants() == []
        assert world.do(ChangeKind.RESUME, (0, 1), batch=BATCH).step == 1
        check(world, launcher, tmp_path)
    finally:
        world.backend.close()
    assert descendants() == []


def check(world, launcher, folder):
    """The job ends with the bits of its history, and something was broken on the way."""
    world.until_step(max(report.step for report in world.reports) + 10)
    world.backend.set_target_step("job", 0)
    end = world.until_end()
    assert (folder / "broken").exists()
    segments = history(world.job_dir(), end.step)
    assert end.results == forced(launcher, folder / "forced", segments)
    check_samples(world.job_dir(), end)

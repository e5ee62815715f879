"""Scripts of one's own whose workers die again and again, or are all stopped and resumed."""

import time

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.consumed_samples import count_samples
from systems.launchers.local import LauncherError
from systems.script.messages import ScaleOut
from tests.elastic.test_api import LINEAR, TIMEOUT_S, Running, launcher, run

__all__ = ["launcher", "run"]


@pytest.fixture
def linear(tmp_path):
    path = tmp_path / "linear.py"
    path.write_text(LINEAR)
    return path


@pytest.mark.parametrize(
    "options",
    [{"recovery": "exact"}, {"recovery": "consistent", "checkpoint_every": 7}],
    ids=["exact", "consistent"],
)
def test_a_script_sees_nothing_of_deaths(run, linear, options):
    job = run(linear, workers=4, **options)
    for index, worker in enumerate(("w3", "w1", "w2")):
        job.until_step(job.job.step + 20)
        job.kill(worker)
        job.until(lambda index=index: len(job.job.slots) == 3 - index)
    job.until_step(job.job.step + 20)
    assert job.do(action="scale_out", to=3)["status"] == "done"
    job.do(action="finish")
    end = job.until_end()
    assert end.kind is ReportKind.FINISHED
    assert count_samples(job.folder, end.step) == (0, 0)
    assert end.results["weight"] > 0.3
    assert "Traceback" not in job.logs()


def test_a_worker_that_dies_while_it_joins_is_answered(run, linear):
    job = run(linear, workers=2)
    job.until_step(10)
    old, answers = set(job.folder.glob("w*.log")), []
    job.job.request(ScaleOut(to=3), answers.append)
    job.until(lambda: set(job.folder.glob("w*.log")) > old)
    (joiner,) = set(job.folder.glob("w*.log")) - old
    job.kill(joiner.stem)
    job.until(lambda: answers)
    assert answers[0].status in ("failed", "done")  # it may have joined before
    job.until_step(job.job.step + 20)
    job.do(action="finish")
    assert job.until_end().kind is ReportKind.FINISHED


def test_suspended_and_resumed(run, linear):
    job: Running = run(linear, workers=2)
    job.until_step(25)
    stepped = []
    for kind, ask in ((ChangeKind.SUSPEND, "suspend"), (ChangeKind.RESUME, "resume")):
        change = job.job._change(kind, () if ask == "suspend" else (0, 1, 2))
        getattr(job.backend, ask)(change)
        done = []
        end = time.monotonic() + TIMEOUT_S
        while not done:
            assert time.monotonic() < end, job.logs()
            reports = job.backend.poll(0.02)
            done = [r for r in reports if r.change_id == change.change_id and r.kind != "accepted"]
        assert done[0].kind is ReportKind.DONE, done
        stepped.append(done[0].step)
    assert stepped[1] == stepped[0] + 1
    job.do(action="finish")
    end = job.until_end()
    assert count_samples(job.folder, end.step) == (0, 0)
    assert end.results["lr"] == pytest.approx(0.1 / end.step)


def test_a_profile_that_cannot_grow_is_answered_with_the_reason_and_goes_back(
    run, linear, launcher, monkeypatch
):
    def refuse(spec):
        raise LauncherError("this host is full")

    job = run(linear, workers=1)
    job.until_step(10)
    monkeypatch.setattr(launcher, "start", refuse)
    found = job.do(action="profile", min=1, max=2, steps=5)
    monkeypatch.undo()
    assert found["status"] == "failed"
    assert "this host is full" in found["reason"]
    assert found["profile"] == []
    assert job.job.slots == (0,)
    assert job.do(action="profile", min=1, max=2, steps=5)["status"] == "done"
    job.do(action="finish")
    assert job.until_end().kind is ReportKind.FINISHED

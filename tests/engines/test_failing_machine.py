"""Live runs on a machine that fails: the process that forks dies or stops, the disk is full.

No program is at fault: every job goes on, or the run fails and is stored by nobody.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from harness.engines.live.consumed_samples import read_lines
from harness.results.store import load_run
from harness.validate import check_run
from harness.validate import main as validate
from systems.launchers.preimported import ANSWER_TIMEOUT_S
from tests.consistency.worlds import write_files
from tests.patience import WITHIN_S, eventually, outcome

ROOT = Path(__file__).resolve().parents[2]
STEPS = 150
pytestmark = pytest.mark.long


class LiveRun:
    """``python -m harness`` with two jobs of one slot each; results below ``folder``."""

    def __init__(self, folder, results):
        self.runs = results / "runs"
        trace, pool = write_files(folder, num_jobs=2, steps=STEPS, step_s=0.02)
        (folder / "elastrace.yaml").write_text("allow: [tests]\n")  # whose class the pool names
        self._folder = folder
        self._words = [
            *(f"trace={trace}", f"workload={pool}", "cluster=cpu2", "profile=recorded"),
            *("engine=live", "engine.fast_forward=false", "scheduler=fifo", "tracking=none"),
            *("backend.start=preimported", "progress=false", f"results_dir={self.runs}"),
        ]
        self.process = None

    def start(self, backend, *words):
        command = [sys.executable, "-m", "harness", *self._words, f"backend={backend}", *words]
        self.process = subprocess.Popen(
            command,
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ended(self, within_s=3 * WITHIN_S):
        """Exit code and standard error."""
        _, error = outcome(self.process, within_s, self._folder)
        return self.process.returncode, error

    def steps(self, job):
        """Steps that a job of the run under way has logged; those it made again count again."""
        logs = self.runs.glob(f".partial-*/jobs/{job}/steps.jsonl")
        return [line["step"] for log in logs for line in read_lines(log)]

    def until_both_train(self, num_steps=25):
        eventually(lambda: min(len(self.steps(job)) for job in "01") >= num_steps)

    def forker(self):
        """The process that forks the workers; None if there is none now."""
        with suppress(psutil.Error):  # one that ends meanwhile
            for child in psutil.Process(self.process.pid).children():
                if "systems.runtime.prefork.zygote" in child.cmdline():
                    return child
        return None

    def stored(self):
        """The finished run, which is sound."""
        (path,) = (path for path in self.runs.iterdir() if not path.name.startswith("."))
        assert check_run(path) == []
        run = load_run(path)
        assert {job.state for job in run.records.jobs} == {"finished"}
        for job in "01":
            made = {step.step for step in run.records.steps if step.job_id == job}
            assert made == set(range(1, STEPS + 1)), "no line of the log is lost"
        assert run.facts["steps_executed"] == 2 * STEPS
        assert run.metrics["samples_missed"] == run.metrics["samples_repeated"] == 0
        return run

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def live(tmp_path):
    run = LiveRun(tmp_path, tmp_path)
    yield run
    run.end()


@contextmanager
def nothing_left(run):
    """No process of the run is left behind; those that were killed may take a moment to end."""
    before = psutil.Process(run.process.pid).children(recursive=True)
    yield
    eventually(lambda: not any(map(lives, before)))


def lives(process):
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("stop_resume", ("backend.checkpoint_every=10",)),
        ("stop_free", ()),
        pytest.param("stop_free", ("backend.checkpoint_every=10",), marks=pytest.mark.soak),
        pytest.param("virtual_thread", ("backend.checkpoint_every=10",), marks=pytest.mark.soak),
        pytest.param("warm_restart", (), marks=pytest.mark.soak),
        pytest.param("static", (), marks=pytest.mark.soak),
    ],
)
def test_jobs_go_on_after_the_process_that_forks_was_killed(live, backend, words):
    live.start(backend, *words)
    live.until_both_train()
    with nothing_left(live):
        live.forker().kill()
        code, error = live.ended()
    assert code == 0, error
    assert "warning: the pre-importing process has died: killed by SIGKILL" in error
    run = live.stored()
    assert run.facts["machine_failures"] == 2
    if words:  # what was done by the last checkpoint was not done again
        assert run.facts.get("steps_repeated", 0) <= 2 * 10


def test_a_stopped_one_is_killed_and_the_jobs_go_on(live):
    live.start("stop_resume", "backend.checkpoint_every=10")
    live.until_both_train()
    live.forker().suspend()
    code, error = live.ended()
    assert code == 0, error
    reason = f"did not answer for {ANSWER_TIMEOUT_S:g} s and was killed"
    assert f"warning: the pre-importing process {reason}" in error
    live.stored()


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143)]
)
def test_a_run_whose_forking_process_has_stopped_still_obeys(live, signum, code):
    live.start("stop_free")
    live.until_both_train()
    with nothing_left(live):
        live.forker().suspend()
        live.process.send_signal(signum)
        assert live.ended(2 * ANSWER_TIMEOUT_S)[0] == code
    assert list(live.runs.iterdir()) == []


def test_ctrl_c_is_obeyed_while_a_start_goes_unanswered(live):
    """The second job arrives a second after the first: it is asked for in vain."""
    live.start("stop_free")
    eventually(lambda: live.steps("0"))
    live.forker().suspend()
    eventually(lambda: list(live.runs.glob(".partial-*/jobs/1")))
    live.process.send_signal(signal.SIGINT)
    assert live.ended(2 * ANSWER_TIMEOUT_S)[0] == 130
    assert list(live.runs.iterdir()) == []


def test_a_run_that_the_machine_ends_has_failed_and_is_run_again(live, capsys):
    live.start("stop_resume")

    def kill():  # as soon as it has forked something
        found = live.forker()
        with suppress(psutil.NoSuchProcess):
            if found is not None and found.children():
                found.kill()
        return live.process.poll() is not None

    eventually(lambda: live.steps("0"))
    eventually(kill, 3 * WITHIN_S)
    code, error = live.ended()
    assert code == 1
    assert "Failed: the machine failed, not a program (job " in error
    assert "5 times in a row: worker 0: the pre-importing process has died" in error
    assert "give the same command again" in error
    (kept,) = live.runs.iterdir()
    told = json.loads((kept / "failure.json").read_text())
    assert kept.name == f".failed-{told['run_id']}"
    assert validate([str(live.runs)]) == 2
    assert f"run {told['run_id']} failed: the machine failed" in capsys.readouterr().err
    live.start("stop_resume")
    code, error = live.ended()
    assert code == 0, error
    live.stored()
    assert validate([str(live.runs)]) == 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("NOT CHECKED: a full disk; this user may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def on_small_disk(tmp_path, small_disk):
    run = LiveRun(tmp_path, small_disk)
    yield run
    run.end()


def fill(disk):
    """Leave no byte of room; returns the file to remove."""
    path = disk / "others"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            return path


@pytest.mark.parametrize(
    "backend",
    [
        "stop_resume",
        pytest.param("stop_free", marks=pytest.mark.soak),
        pytest.param("virtual_thread", marks=pytest.mark.soak),
    ],
)
def test_jobs_train_on_while_the_disk_is_full_and_nothing_is_lost(
    on_small_disk, small_disk, backend
):
    live = on_small_disk
    live.start(backend, "backend.checkpoint_every=10")
    live.until_both_train(20)
    others = fill(small_disk)
    known = len(live.steps("0"))
    (log,) = live.runs.glob(".partial-*")
    assert live.process.stderr is not None
    line = live.process.stderr.readline()
    assert line.startswith("warning: job "), line
    assert "cannot be written ([Errno 28] No space left on device" in line
    assert len(live.steps("0")) < known + 20
    assert not list(log.glob("jobs/*/checkpoints/*.partial"))
    others.unlink()
    code, error = live.ended()
    assert code == 0, error
    run = live.stored()
    assert "steps_repeated" not in run.facts, "no job has gone back"


@pytest.mark.parametrize(
    "backend", ["stop_resume", pytest.param("stop_free", marks=pytest.mark.soak)]
)
def test_a_run_whose_disk_stays_full_has_failed_and_is_run_again(
    on_small_disk, small_disk, backend
):
    live = on_small_disk
    live.start(backend, "backend.checkpoint_every=10")
    live.until_both_train(20)
    others = fill(small_disk)
    code, error = live.ended()
    assert code == 1, error
    assert "Failed: the machine failed, not a program (job " in error
    assert "[Errno 28] No space left on device" in error
    (kept,) = live.runs.iterdir()
    assert kept.name.startswith(".failed-")
    others.unlink()
    live.start(backend, "backend.checkpoint_every=10")
    code, error = live.ended()
    assert code == 0, error
    live.stored()

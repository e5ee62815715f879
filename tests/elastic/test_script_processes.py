"""Processes that a script starts: they end with their worker, however that ends."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.contracts.backend_reports import ReportKind
from tests.elastic.test_api import TIMEOUT_S, launcher, run
from tests.patience import outcome

__all__ = ["launcher", "run"]

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import os, subprocess, sys, torch
from torch.utils.data import TensorDataset
from systems.script import api as elastic

mine = subprocess.Popen(["sleep", "1000"])
detached = subprocess.Popen(["sleep", "1000"], start_new_session=True)
# The shell ends at once, so that its child is an orphan in a session of its own.
command = "sleep 1000 >/dev/null 2>&1 & echo $!"
orphan = subprocess.check_output(["sh", "-c", command], text=True, start_new_session=True)
path = os.path.join(sys.argv[1], str(os.getpid()))
with open(path + ".part", "w") as file:
    file.write(f"{mine.pid} {detached.pid} {orphan}")
os.rename(path + ".part", path)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = elastic.init(model, optimizer)
for (x,) in elastic.batches(TensorDataset(torch.ones(64, 4)), 8):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
elastic.shutdown()
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "starts.py"
    path.write_text(SCRIPT)
    (tmp_path / "started").mkdir()
    return path


def started(folder):
    """The processes that the workers' scripts have started, by worker's process id."""
    found = {}
    for path in folder.iterdir():
        if path.suffix != ".part":
            found[int(path.name)] = [psutil.Process(int(pid)) for pid in path.read_text().split()]
    return found


def wait_for_ends(processes):
    _, alive = psutil.wait_procs(processes, timeout=TIMEOUT_S)
    assert not alive


def test_they_end_with_the_job_and_with_a_worker_that_is_killed(run, script, tmp_path):
    folder = tmp_path / "started"
    job = run(script, str(folder), workers=2)
    job.until_step(5)
    of_workers = started(folder)
    assert len(of_workers) == 2
    for processes in of_workers.values():
        assert len(processes) == 3
        assert all(process.is_running() for process in processes)
    killed = next(iter(of_workers))
    psutil.Process(killed).kill()
    wait_for_ends(of_workers.pop(killed))
    job.until(lambda: len(job.job.slots) == 1)
    (of_survivor,) = of_workers.values()
    assert all(process.is_running() for process in of_survivor)
    job.do(action="finish")
    assert job.until_end().kind is ReportKind.FINISHED
    wait_for_ends(of_survivor)


@pytest.mark.parametrize("start", ["preimported", "cold"])
@pytest.mark.parametrize("signal", ["finish", "interrupt"])
@pytest.mark.long
def test_they_end_with_the_command(start, signal, script, tmp_path):
    folder, job = tmp_path / "started", tmp_path / "job"
    command = [sys.executable, "-m", "systems.script"]
    process = subprocess.Popen(
        [*command, "run", str(script), "--start", start, "--job", str(job), "--", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while "step" not in process.stdout.readline():
            assert process.poll() is None
        (processes,) = started(folder).values()
        assert all(each.is_running() for each in processes)
        if signal == "finish":
            subprocess.run([*command, "finish", str(job)], cwd=ROOT, check=True)
        else:
            process.send_signal(2)
        outcome(process, TIMEOUT_S)
        assert process.returncode == (0 if signal == "finish" else 130)
        wait_for_ends(processes)
    finally:
        with suppress(ProcessLookupError):
            process.kill()

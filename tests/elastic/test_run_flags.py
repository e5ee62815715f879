"""Flags of ``python -m systems.script run``: each is seen in what the job does."""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from harness.engines.live.consumed_samples import count_samples
from systems.runtime.wire.step_log import read_lines
from systems.script.messages import Finish, ScaleOut, Status
from systems.script.request_channel import ask
from tests.elastic.stores import EtcdProcess
from tests.patience import eventually, outcome

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "examples" / "digits_elastic.py"
TIMEOUT_S = 120.0


WITHOUT_EPOCHS = """
import torch
from systems.script import api as elastic

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.ones(1536, 4), torch.zeros(1536, 1))
model, optimizer = elastic.init(model, optimizer)
for x, y in elastic.batches(data, 64):
    optimizer.zero_grad()
    (model(x) - y).square().mean().backward()
    optimizer.step()
"""


@contextmanager
def running(folder, *flags, script=SCRIPT):
    """A script, the example by default, with two workers of three slots, until it is asked to
    finish."""
    model = folder.parent / "digits.pt"
    command = [sys.executable, "-m", "systems.script", "run", str(script), "--job", str(folder)]
    command += ["--slots", "3", "--workers", "2", *flags, "--", "1000", str(model)]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout.readline() == f"job {folder}\n"
        assert run.stdout.readline() == "step 1: 2 workers\n"
        yield run
        assert ask(folder, Finish(), TIMEOUT_S).status == "done"
        rest, _ = outcome(run, TIMEOUT_S)
        end = json.loads(rest.splitlines()[-1])
        assert run.returncode == 0
        assert count_samples(folder, end["step"]) == (0, 0)
    finally:
        run.kill()
        run.wait()


def kill(run, folder, worker):
    """SIGKILL a worker, which is known by where its output goes."""
    for process in psutil.Process(run.pid).children(recursive=True):
        if Path(f"/proc/{process.pid}/fd/1").resolve() == folder.resolve() / f"{worker}.log":
            process.kill()
            return
    raise AssertionError(f"no process of {worker}")


def forking(run):
    """The process that imports in advance and forks workers, if there is one."""
    for process in psutil.Process(run.pid).children():
        if "systems.runtime.prefork.zygote" in process.cmdline():
            return process
    return None


def steps(folder):
    return list(read_lines(folder / "steps.jsonl"))


@pytest.mark.long
def test_checkpoints_blocks_and_cold_newcomers(tmp_path):
    """The script has no epochs: with epochs a job that goes back over the end of one is refused."""
    folder, script = tmp_path / "job", tmp_path / "script.py"
    script.write_text(WITHOUT_EPOCHS)
    flags = ["--recovery", "consistent", "--checkpoint-every", "5", "--data-order", "blocks"]
    flags += ["--transfer", "broadcast", "--start", "cold", "--seed", "3"]
    with running(folder, *flags, script=script) as run:
        grown = ask(folder, ScaleOut(to=3), TIMEOUT_S)
        assert grown.status == "done"
        assert forking(run) is None
        assert grown.phases_s["wait"] >= 0
        eventually(lambda: steps(folder)[-1]["step"] > grown.step + 6)
        kill(run, folder, "w1")
        eventually(lambda: ask(folder, Status(), TIMEOUT_S).workers == 2)
        eventually(lambda: steps(folder)[-1]["world"] == 2)
    for path in folder.glob("samples-*.jsonl"):
        assert next(read_lines(path))["order"] == "blocks"
    made = steps(folder)
    last = max(i for i, line in enumerate(made) if line["world"] == 3)
    assert (made[last + 1]["step"] - 1) % 5 == 0, "all went back to a checkpoint"
    assert made[last + 1]["step"] <= made[last]["step"] + 1


@pytest.mark.parametrize("start", ["preimported", "spare"])
@pytest.mark.long
def test_an_election_in_etcd_and_modules_imported_once(tmp_path, start):
    etcd = EtcdProcess()
    try:
        folder = tmp_path / "job"
        flags = ["--etcd", etcd.endpoint, "--preimport", "fractions", "--start", start]
        with running(folder, *flags, "--transfer", "peer", "--recovery", "approximate") as run:
            assert etcd.keys(), "its leader's"
            assert "fractions" in forking(run).cmdline()
            idle = len(forking(run).children()) - 3  # beside the store and two workers
            assert (idle > 0) == (start == "spare")
            grown = ask(folder, ScaleOut(to=3), TIMEOUT_S)
            assert grown.status == "done"
            kill(run, folder, "w1")
            eventually(lambda: ask(folder, Status(), TIMEOUT_S).workers == 2)
    finally:
        etcd.kill()

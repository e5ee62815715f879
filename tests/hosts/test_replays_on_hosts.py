"""Whole replays on fake hosts: a lost host is capacity that is lost, and is used again."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from harness.results.store import iter_runs
from harness.strikes.trial import TRACE
from tests.artifact.shown import ROOT
from tests.hosts.fake import fake_hosts

JOBS = """\
arrival,slots,max_slots,work
0,1,3,360000
1,2,4,360000
4,1,2,240000
6,1,4,360000
"""
PAUSE = threading.Event()


@pytest.fixture
def hosts(tmp_path):
    found = fake_hosts(2, tmp_path)
    yield found
    found.close()


def words_of(hosts, folder, backend):
    (folder / "struck.csv").write_text(JOBS)
    (folder / "struck.yaml").write_text(TRACE)
    (folder / "two.yaml").write_text(
        "_target_: harness.cluster.uniform_cluster\n"
        "name: two\n"
        "num_hosts: 2\n"
        "devices_per_host: 2\n"
        "device_type: cpu\n"
        f"addresses: {json.dumps(hosts.addresses)}\n"
    )
    return [
        *(sys.executable, "-m", "harness", f"trace={folder / 'struck.yaml'}"),
        *(f"cluster={folder / 'two.yaml'}", f"results_dir={folder / 'runs'}"),
        *("workload=toy", "profile=recorded", "engine=live", "engine.fast_forward=false"),
        *(
            "scheduler=uniform",
            "scheduler.use_throughput=false",
            "tracking=none",
            f"backend={backend}",
            "backend.start=preimported",
        ),
        *(f"backend.bind={hosts.driver}", "backend.checkpoint_every=200"),
        *("launcher=hosts", f"launcher.bind={hosts.driver}", f"launcher.command={hosts.command!r}"),
    ]


@pytest.mark.long
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("backend", ["stop_free", "stop_resume"])
@pytest.mark.parametrize(
    "strike",
    [
        pytest.param("none", marks=pytest.mark.soak),
        pytest.param("agent killed", marks=pytest.mark.soak),
        "link down and up",
    ],
)
def test_a_replay_finishes_all_jobs_whatever_becomes_of_a_host(backend, strike, hosts, tmp_path):
    with open(tmp_path / "said", "w") as said:
        command = subprocess.Popen(
            words_of(hosts, tmp_path, backend),
            cwd=ROOT,
            stdout=said,
            stderr=said,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    try:
        if strike != "none":
            wait_for(lambda: re.search("jobs ended: .*[1-4] live jobs", read(tmp_path)), command)
            agent = agent_on(command.pid, hosts.addresses[1])
            if strike == "agent killed":
                agent.kill()
            else:
                hosts.cut(hosts.addresses[1])
                wait_for(lambda: "is lost" in read(tmp_path), command)
                hosts.mend(hosts.addresses[1])
        assert command.wait(480) == 0, read(tmp_path)
    finally:
        command.send_signal(signal.SIGTERM)
        command.wait(30)
    (run,) = iter_runs(tmp_path / "runs")
    assert run.metrics["jobs_finished"] == 4
    assert run.metrics["samples_missed"] == run.metrics["samples_repeated"] == 0
    if strike != "none":
        assert f"warning: host {hosts.addresses[1]} is lost" in read(tmp_path)


def read(folder):
    return (folder / "said").read_text()


def wait_for(is_true, command):
    deadline = time.monotonic() + 240.0
    while not is_true():
        assert command.poll() is None
        assert time.monotonic() < deadline
        PAUSE.wait(0.1)


def agent_on(driver, address):
    (found,) = [
        process
        for process in psutil.Process(driver).children(recursive=True)
        if process.name().startswith("python")
        and "systems.launchers.hosts.agent" in process.cmdline()
        and address in process.cmdline()
    ]
    return found

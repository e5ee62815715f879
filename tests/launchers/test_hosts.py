"""The launcher of several hosts: agents that die, stop, come twice, or cannot be started."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import psutil
import pytest

from harness.contracts.process import Warmth
from systems.launchers.hosts import facts, lease, link
from systems.launchers.hosts.agent import JOB_ID
from systems.launchers.hosts.launcher import Hosts
from systems.launchers.hosts.messages import TO_AGENT, AgentGreeting
from systems.launchers.local import LauncherError
from systems.runtime.wire.clock import CLOCK_OFFSET_VARIABLE
from systems.runtime.wire.control import ControlClient
from tests.backends.world import configured
from tests.contracts.test_launcher import PAUSE, ROOT, Starter, is_alive, wait_until_gone


@contextmanager
def opened(tmp_path, warmth=Warmth.COLD, **changes):
    launcher = configured("launcher", "hosts", preimport=["json"], **changes)
    launcher.open()
    try:
        yield Starter(launcher, warmth, tmp_path)
    finally:
        launcher.close()


def agent_of(handle_pid):
    """The agent whose process this is: its parent, or the parent of its fork server."""
    for parent in psutil.Process(handle_pid).parents():
        if "systems.launchers.hosts.agent" in parent.cmdline():
            return parent
    raise AssertionError("no agent")


def waiting(starter, tmp_path, name="pid"):
    """The handle of a process that waits, the process, and its agent."""
    handle = starter.start("wait", tmp_path / name, keep=False)
    process = psutil.Process(int(starter.wait_for(tmp_path / name)))
    return handle, process, agent_of(process.pid)


@pytest.mark.parametrize("warmth", [Warmth.COLD, Warmth.PREIMPORTED], ids=str)
def test_the_death_of_an_agent_is_the_loss_of_its_host_and_a_start_brings_another(
    warmth, tmp_path, capsys
):
    with opened(tmp_path, warmth) as starter:
        handles, processes = [], []
        for index in range(2):
            handle, process, agent = waiting(starter, tmp_path, str(index))
            handles.append(handle)
            processes.append(process)
        agent.kill()
        for end in starter.end_of(*handles):
            assert (end.host_lost, end.of_machine) == (True, True)
            assert end.reason.startswith("host 127.0.0.1 is lost: its agent has ended")
        wait_until_gone(*(process.pid for process in processes))
        assert "warning: host 127.0.0.1 is lost" in capsys.readouterr().err
        (end,) = starter.end_of(starter.start("leave", 0, keep=False))
        assert end.host_lost
        lost, back = host_events(starter.launcher, 2)
        assert (lost.address, lost.is_up, back.is_up) == ("127.0.0.1", False, True)
        assert lost.reason == end.reason
        (end,) = starter.end_of(starter.start("leave", 0, keep=False))
        assert (end.returncode, end.host_lost) == (0, False)


def host_events(launcher, number):
    """The next events of hosts, so many."""
    found = []
    deadline = time.monotonic() + 30.0
    while len(found) < number:
        found += launcher.host_events()
        assert time.monotonic() < deadline, found
        PAUSE.wait(0.02)
    return found


def test_a_stopped_agent_is_found_within_its_bound_and_its_processes_end(tmp_path):
    with opened(tmp_path) as starter:
        handle, process, agent = waiting(starter, tmp_path)
        agent.suspend()
        stopped_at = time.monotonic()
        (end,) = starter.end_of(handle)
        assert end.host_lost
        assert end.reason.endswith(f"its agent was not heard for {lease.LOST_AFTER_S:g} s")
        assert time.monotonic() - stopped_at > lease.LEASE_S
        wait_until_gone(process.pid, agent.pid)


def test_no_process_outlives_the_lease_when_the_driver_stops(tmp_path):
    """Nothing tells the agent: the connection stays open, and no beat comes."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.backends.launch_forever", "hosts", "cold", str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert driver.stdout.readline() == b"waiting\n"
        below = psutil.Process(driver.pid).children(recursive=True)
        assert len(below) == 3
        driver.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + lease.LEASE_S + 5
        while any(map(is_alive, (process.pid for process in below))):
            assert time.monotonic() < deadline
            PAUSE.wait(0.05)
    finally:
        driver.kill()
        driver.wait()


def test_an_agent_that_was_stopped_for_longer_than_its_lease_ends_its_workers(tmp_path):
    """Beats that came meanwhile do not extend the lease: the driver has given up the host."""
    script = tmp_path / "detached"
    # As over ssh, where killing the starter does not reach the agent: the agent leaves the
    # session of its starter.
    script.write_text('#!/bin/sh\nexec 3<&0\nsetsid "$@" <&3 &\nwait\n')
    with opened(tmp_path, command=f"sh {script} {{agent}}") as starter:
        handle, process, agent = waiting(starter, tmp_path)
        agent.suspend()
        (end,) = starter.end_of(handle)
        assert end.host_lost
        assert is_alive(process.pid)
        agent.resume()
        wait_until_gone(process.pid, agent.pid)


def greeting(token, host="127.0.0.1"):
    return AgentGreeting(
        job_id=JOB_ID, token=token, host=host, pid=os.getpid(), facts=facts.host_facts()
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
@pytest.mark.parametrize("knows_token", [True, False])
def test_neither_a_stranger_nor_a_second_agent_gets_a_message(host, knows_token, tmp_path):
    with opened(tmp_path) as starter:
        handle, process, _ = waiting(starter, tmp_path)
        launcher = starter.launcher
        token = launcher._token if knows_token else "wrong"
        is_over = threading.Event()
        address, port = launcher._server.address
        intruder = ControlClient(address, port, greeting(token, host), TO_AGENT, on_end=is_over.set)
        assert is_over.wait(10)
        assert intruder.arrived() == []
        intruder.close()
        assert launcher.ended() == []
        assert is_alive(process.pid)
        launcher.signal(handle, signal.SIGKILL)
        (end,) = starter.end_of(handle)
        assert (end.host_lost, end.is_kill_from_outside) == (False, False)


def test_a_host_with_other_code_is_refused_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr("systems.launchers.hosts.launcher.host_facts", other_facts)
    with opened(tmp_path) as starter:
        (end,) = starter.end_of(starter.start("leave", 0))
    assert end.host_lost
    assert "the code of Elastrace differs there" in end.reason
    assert "torch is " in end.reason
    assert "and 0.0 here" in end.reason


def other_facts():
    found = facts.host_facts()
    return facts.HostFacts(
        packages=found.packages | {"torch": "0.0"},
        code_digest="0" * 64,
    )


def test_an_agent_that_cannot_be_started_is_told_with_its_last_words(tmp_path):
    command = "sh -c 'echo no route to {address} >&2; exit 255'"
    with opened(tmp_path, command=command) as starter:
        handles = [starter.start("leave", 0) for _ in range(3)]
        for end in starter.end_of(*handles):
            assert end.host_lost
            said = "its agent could not be started (exited with 255: no route to 127.0.0.1)"
            assert end.reason == f"host 127.0.0.1 is lost: {said}"


def test_an_agent_that_never_comes_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(link, "START_TIMEOUT_S", 0.5)
    with opened(tmp_path, command="sleep 1000") as starter:
        (end,) = starter.end_of(starter.start("leave", 0))
        assert "its agent did not connect within 0.5 s" in end.reason
    assert not [p for p in psutil.Process().children() if "sleep" in p.name()]


def test_an_address_of_another_machine_is_refused_in_words():
    launcher = Hosts(bind="192.0.2.7")
    with pytest.raises(LauncherError, match=r"launcher\.bind='192\.0\.2\.7'.*of this machine"):
        launcher.open()
    launcher.close()


def test_a_command_that_cannot_be_filled_in_is_refused_before_anything_starts():
    with pytest.raises(ValueError, match=r"known: \{address\}, \{agent\}, \{python\}"):
        Hosts(command="ssh {host} {agent}")
    with pytest.raises(ValueError, match="spares is 0"):
        Hosts(spares=0)


def test_leases_that_cannot_be_kept_are_an_error_and_no_endless_wait(tmp_path, monkeypatch):
    def broken(self):
        raise OSError("no descriptor is left")

    monkeypatch.setattr(link.HostLink, "failure", broken)
    with opened(tmp_path) as starter:
        handle = starter.start("wait", tmp_path / "pid")
        with pytest.raises(LauncherError, match="no descriptor is left"):
            starter.end_of(handle)


def test_processes_know_the_offset_of_their_clock(tmp_path):
    with opened(tmp_path) as starter:
        path = tmp_path / "facts"
        starter.end_of(starter.start("describe", path))
        offset_s = float(json.loads(path.read_text())["env"][CLOCK_OFFSET_VARIABLE])
        # One machine has one clock; the beat's round trip bounds the error.
        assert abs(offset_s) < 0.5

"""The local launcher and its fork server: what becomes of a fork server that dies or stops."""

import signal
import time

import psutil

from systems.launchers import preimported
from tests.contracts.test_launcher import (
    PAUSE,
    is_alive,
    starter_of,
    wait_until_gone,
)

NAME = "local"
"""Launcher whose fork server these tests can see and whose bounds they can set."""


def test_a_killed_preimporting_process_takes_its_forks_along_and_is_started_again(tmp_path, capsys):
    starter = starter_of(NAME, tmp_path)
    handle = starter.start("wait_with_child", tmp_path / "pid")
    process = psutil.Process(int(starter.wait_for(tmp_path / "pid")))
    child = int(starter.wait_for(tmp_path / "pid.child"))
    process.parent().kill()
    (end,) = starter.end_of(handle)
    assert end.of_machine
    assert end.reason == ("the pre-importing process has died: killed by SIGKILL; no output")
    wait_until_gone(process.pid, child)
    assert f"warning: {end.reason}" in capsys.readouterr().err
    (end,) = starter.end_of(starter.start("leave", 0))
    assert (end.returncode, end.of_machine) == (0, False)
    starter.launcher.close()


def stopped(starter, path):
    """A fork, and the pre-importing process, which has stopped."""
    handle = starter.start("wait", path)
    fork = psutil.Process(int(starter.wait_for(path)))
    parent = fork.parent()
    parent.suspend()
    return handle, fork, parent


def test_a_stopped_preimporting_process_is_killed_and_started_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(preimported, "ANSWER_TIMEOUT_S", 0.5)
    starter = starter_of(NAME, tmp_path)
    handle, fork, parent = stopped(starter, tmp_path / "pid")
    began = time.monotonic()
    # More than its socket has room for: nothing may wait for it.
    others = [starter.start("leave", 0, own_env={"A": "x" * 4096}) for _ in range(200)]
    assert time.monotonic() - began < 5, "a start does not wait"
    ends = starter.end_of(handle, *others)
    assert all(end.of_machine for end in ends)
    reason = "the pre-importing process did not answer for 0.5 s and was killed"
    assert {end.reason for end in ends} == {reason}
    wait_until_gone(fork.pid, parent.pid)
    assert f"warning: {reason}; the 201 processes forked" in capsys.readouterr().err
    (end,) = starter.end_of(starter.start("leave", 0))
    assert (end.returncode, end.of_machine) == (0, False)
    starter.launcher.close()


def test_a_preimporting_process_that_stops_is_found_though_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(preimported, "ANSWER_TIMEOUT_S", 0.5)
    monkeypatch.setattr(preimported, "PING_EVERY_S", 0.2)
    starter = starter_of(NAME, tmp_path)
    handle, fork, _ = stopped(starter, tmp_path / "pid")
    fork.kill()  # its parent cannot tell of it
    (end,) = starter.end_of(handle)
    assert end.of_machine
    starter.launcher.close()


def test_a_preimporting_process_that_stops_during_its_imports_is_killed_and_started_again(
    tmp_path, capsys, monkeypatch
):
    """A slow import may take minutes; a stopped one is known as such."""
    monkeypatch.setattr(preimported, "STOPPED_TIMEOUT_S", 0.3)
    before = psutil.Process().children()
    starter = starter_of(NAME, tmp_path)
    handle = starter.start("leave", 0)
    (importing,) = (child.pid for child in psutil.Process().children() if child not in before)
    psutil.Process(importing).suspend()
    (end,) = starter.end_of(handle)
    reason = "the pre-importing process was stopped for 0.3 s during its imports and was killed"
    assert (end.reason, end.of_machine) == (reason, True)
    assert reason in capsys.readouterr().err
    (end,) = starter.end_of(starter.start("leave", 0))
    assert (end.returncode, end.of_machine) == (0, False)
    starter.launcher.close()
    wait_until_gone(importing)


def test_one_that_answers_is_left_alone_whatever_it_forked(tmp_path, monkeypatch):
    monkeypatch.setattr(preimported, "PING_EVERY_S", 0.05)
    starter = starter_of(NAME, tmp_path)
    handle = starter.start("wait", tmp_path / "pid")
    psutil.Process(int(starter.wait_for(tmp_path / "pid"))).suspend()
    for _ in range(50):
        assert starter.launcher.ended() == []
        PAUSE.wait(0.01)
    starter.launcher.signal(handle, signal.SIGKILL)
    (end,) = starter.end_of(handle)
    assert end.returncode == -signal.SIGKILL
    starter.launcher.close()


def test_a_time_in_which_the_launcher_itself_stood_still_is_not_held_against_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(preimported, "ANSWER_TIMEOUT_S", 0.5)
    monkeypatch.setattr(preimported, "MOST_PASSED_S", 0.2)
    starter = starter_of(NAME, tmp_path)
    _, fork, parent = stopped(starter, tmp_path / "pid")
    handle = starter.start("leave", 0)
    PAUSE.wait(1.0)  # nobody looks, and it does not run: so it is when a machine is suspended
    assert starter.launcher.ended() == []
    parent.resume()
    (end,) = starter.end_of(handle)
    assert (end.returncode, end.of_machine) == (0, False)
    assert is_alive(fork.pid)
    starter.launcher.close()


def test_closing_does_not_wait_for_a_preimporting_process_that_has_stopped(tmp_path):
    starter = starter_of(NAME, tmp_path)
    handle, fork, parent = stopped(starter, tmp_path / "pid")
    starter.launcher.signal(handle, signal.SIGKILL)
    began = time.monotonic()
    starter.launcher.close()
    assert time.monotonic() - began < 5
    wait_until_gone(fork.pid, parent.pid)

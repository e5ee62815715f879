"""The suite of the backend seam, second part: deaths, strangers, and what they leave behind."""

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from tests.backends.world import (
    REDOES_STEPS,
    configured,
    consumed_by_epoch,
    consumed_ids,
    descendants,
    options,
    skip_if_missing,
    warmths,
    workers,
)

DRIVER = Path(__file__).resolve().parents[1] / "backends" / "drive_forever.py"


def test_an_exception_in_a_step_fails_the_job_with_its_own_reason(world):
    world.until_change(world.start((0, 1, 2), fail_at_step=5))
    failed = world.until(lambda report: report.kind in (ReportKind.FAILED, ReportKind.LOST))
    assert (failed.kind, failed.change_id) == (ReportKind.FAILED, None)
    assert "ArithmeticError: this workload was told to fail in a step" in failed.reason


def test_a_killed_worker_loses_the_job_which_can_be_resumed(world):
    if world.backend.name in REDOES_STEPS:
        pytest.skip(f"{world.backend.name} starts its workers again: test_torchrun.py")
    if world.backend.abilities.survive:
        pytest.skip(f"{world.backend.name} goes on without it: the next test")
    world.until_change(world.start((0, 1, 2), step_s=0.002))
    world.until_step(20)
    victim = random.Random(3).choice(workers())
    killed_at = time.monotonic()
    victim.kill()
    lost = world.until_end(ReportKind.LOST)
    assert lost.at_s - killed_at < 2.0
    assert "SIGKILL" in lost.reason
    assert (lost.step, lost.samples) == (0, 0)  # nothing was saved
    assert descendants() == []
    world.do(ChangeKind.RESUME, (0, 1))
    world.backend.set_target_step("job", 30)
    end = world.until_end()
    assert end.step >= 30
    assert len(consumed_ids(world, 97)) == end.samples


def test_a_kill_from_outside_is_no_fault_of_the_program(world):
    """All processes of the job, so that it is lost under every backend."""
    world.until_change(world.start((0,), step_s=0.002))
    world.until_step(20)
    for process in descendants():
        with suppress(psutil.NoSuchProcess):
            process.kill()
    assert world.until_end(ReportKind.LOST).of_machine
    world.do(ChangeKind.RESUME, (0,))


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_job_that_survives_goes_on_with_the_others_and_loses_nothing(world, victim):
    if not world.backend.abilities.survive:
        pytest.skip(f"{world.backend.name} loses the job: the test before")
    if world.backend.name in REDOES_STEPS:
        pytest.skip(f"{world.backend.name} starts its workers again: test_torchrun.py")
    world.until_change(world.start((0, 1, 2), step_s=0.002))
    world.until_step(20)
    killed_at = time.monotonic()
    sorted(workers(), key=lambda process: process.pid)[victim].kill()
    shrunk = world.until(lambda report: report.kind is ReportKind.SHRUNK)
    assert shrunk.at_s - killed_at < 5.0
    assert "SIGKILL" in shrunk.reason
    assert len(shrunk.lost_slots) == 1
    assert tuple(sorted(shrunk.slots + shrunk.lost_slots)) == (0, 1, 2)
    assert len(workers()) == 2
    assert shrunk.samples == 12 * shrunk.step
    done = world.do(ChangeKind.RESCALE, (*shrunk.slots, *shrunk.lost_slots))
    assert done.step > shrunk.step
    world.backend.set_target_step("job", done.step + 20)
    end = world.until_end()
    epochs, num_over = consumed_by_epoch(world, 97)
    assert sum(map(len, epochs.values())) == end.samples == 12 * end.step
    assert all(sorted(epochs[epoch]) == list(range(97)) for epoch in range(num_over))


def test_a_worker_killed_while_it_starts_loses_the_job(world):
    change = world.start((0, 1, 2))
    world.until(lambda report: report.kind is ReportKind.ACCEPTED)
    deadline = time.monotonic() + 20
    while not (found := descendants()) and time.monotonic() < deadline:
        world.poll(0.001)
    found[-1].kill()
    lost = world.until_end(ReportKind.LOST)
    assert lost.change_id == change
    assert descendants() == []
    world.do(ChangeKind.RESUME, (0,))


def test_a_stranger_without_the_token_is_refused(world):
    world.until_change(world.start((0, 1), step_s=0.002))
    listening = [
        connection.laddr
        for connection in psutil.Process().net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert [address.ip for address in listening] == ["127.0.0.1"]
    for lines in (
        {"kind": "rank_greeting", "job_id": "job", "version": 1, "token": "0" * 64},
        {"kind": "rank_greeting", "job_id": "nobody", "generation": 1, "rank": 0},
        {"kind": "failed", "job_id": "job", "reason": "", "collective": False},
        {"kind": "store_greeting", "job_id": "job", "token": "", "version": 2, "more": [{}]},
    ):
        with socket.create_connection(listening[0], 5) as stranger:
            stranger.sendall(json.dumps(lines).encode() + b"\n")
            until_answered(world, stranger)
            assert stranger.recv(1) == b""
    for noise in (
        b"x" * 100_000,
        b"[]\n",
        b"\xff\xfe\n",
        b"\n",
        b"{" * 4000 + b"\n",
        b'{"job_id":"job","token":' + b"9" * 4000 + b"}\n",
        b'{"job_id":"\\ud800","token":""}\n',
    ):
        with socket.create_connection(listening[0], 5) as stranger:
            stranger.sendall(noise)
            until_answered(world, stranger)
            with pytest.raises(ConnectionResetError) if len(noise) > 4096 else _closed():
                assert stranger.recv(1) == b""
                raise ConnectionResetError
    world.backend.set_target_step("job", 0)
    world.until_end()


def until_answered(world, stranger):
    """Whoever is polled hears of strangers, at one poll or a later one; training goes on."""
    deadline = time.monotonic() + 5
    while not select.select([stranger], [], [], 0)[0]:
        assert time.monotonic() < deadline
        world.poll(0.01)
    world.until_step(world.reports[-1].step + 1)


class _closed:  # noqa: N801  (stands beside pytest.raises)
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return kind is ConnectionResetError


def test_workers_listen_on_the_hosts_own_address_only(world):
    world.until_change(world.start((0, 1)))
    addresses = {
        connection.laddr.ip
        for process in descendants()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


SOON = ("stop_resume-preimported", "stop_free-spare")
"""One backend of each kind in one warmth, for the fast tests."""


def _when(name, start):
    """The long tests have each backend in one warmth, and one of fresh processes; the soak all."""
    if f"{name}-{start}" in SOON:
        return ()
    is_long = start == "preimported" or (start == "cold" and name in ("torchrun", "static"))
    return pytest.mark.long if is_long else pytest.mark.soak


@pytest.mark.parametrize(
    ("name", "start"),
    [
        pytest.param(name, start, id=f"{name}-{start}", marks=_when(name, start))
        for name in options("backend")
        for start in warmths(name)
    ],
)
def test_sigkill_of_the_driver_leaves_no_process(name, start, tmp_path):
    skip_if_missing(configured("backend", name))
    marker = f"{tmp_path.name}-{os.getpid()}-{time.monotonic_ns()}"
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.backends.drive_forever", name, start, str(tmp_path)],
        env={**os.environ, "ELASTRACE_TEST_MARKER": marker},
        stdout=subprocess.PIPE,
        cwd=DRIVER.parents[2],
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"training\n"
    assert len(marked(marker)) >= 3  # the driver and two workers at least
    driver.send_signal(signal.SIGKILL)
    driver.wait(10)
    deadline = time.monotonic() + 5
    while (left := marked(marker)) and time.monotonic() < deadline:
        psutil.wait_procs(left, 0.05)
    assert marked(marker) == []


def marked(marker):
    """Processes with the marker in their environment (a fork shows that of its parent)."""
    found = []
    for process in psutil.process_iter():
        try:
            if marker in process.environ().values() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


# What follows needs rescaling and suspension.

"""Claims of points: one command at a time has a point, and a live point has its machine alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.sweep.point_claims import Claim, Claims, Refusal
from tests.patience import outcome

ROOT = Path(__file__).resolve().parents[2]
HOLDS = """
import sys
from pathlib import Path
from harness.sweep.point_claims import Claim, Claims

root, run_id, alone = sys.argv[1:]
taken = Claims(Path(root), print).take(run_id, lambda: None, alone=alone == "alone")
assert isinstance(taken, Claim)
print("held", flush=True)
sys.stdin.readline()
taken.release()
"""
MANY = """
import os, sys
from pathlib import Path
from harness.sweep.point_claims import Claim, Claims

root, inside, count = sys.argv[1:]
claims = Claims(Path(root), lambda line: None)
held = 0
while held < int(count):
    taken = claims.take("x", lambda: None, alone=False)
    if isinstance(taken, Claim):
        os.mkdir(inside)  # fails if another process is inside
        os.rmdir(inside)
        taken.release()
        held += 1
"""


def python(code: str, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def holder(tmp_path):
    """Starts processes that hold a claim until a line comes, or they are killed."""
    processes = []

    def start(run_id: str, how: str) -> subprocess.Popen[str]:
        process = python(HOLDS, tmp_path, run_id, how)
        processes.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def nothing():
    return None


def test_a_claim_excludes_others_and_says_which_process_has_it(tmp_path, holder):
    said = []
    process = holder("x", "shared")
    claims = Claims(tmp_path, said.append)
    for _ in range(2):
        assert isinstance(claims.take("x", nothing, alone=False), Refusal)
    (line,) = said
    expected = f"Waiting for process {process.pid} on {socket.gethostname()}, which runs x since 20"
    assert line.startswith(expected)
    other = claims.take("y", nothing, alone=False)
    assert isinstance(other, Claim)
    other.release()
    outcome(process)  # its input ends, and so it releases the claim
    assert list(tmp_path.iterdir()) == []


def test_a_claim_dies_with_its_process(tmp_path, holder):
    process = holder("x", "alone")
    claims = Claims(tmp_path, lambda line: None)
    assert isinstance(claims.take("x", nothing, alone=True), Refusal)
    process.send_signal(signal.SIGKILL)
    process.wait()
    taken = claims.take("x", nothing, alone=True)
    assert isinstance(taken, Claim)
    taken.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("theirs", "ours", "is_had"),
    [("shared", False, True), ("shared", True, False), ("alone", False, False)],
)
def test_a_live_point_has_its_machine_alone(tmp_path, holder, theirs, ours, is_had):
    said = []
    process = holder("other", theirs)
    taken = Claims(tmp_path, said.append).take("x", nothing, alone=ours)
    assert isinstance(taken, Claim) is is_had
    if isinstance(taken, Claim):
        taken.release()
    else:
        (line,) = said
        assert f"process {process.pid} on {socket.gethostname()}, which runs other since" in line
        assert line.endswith("; a live point runs alone on its machine.")


def test_of_many_processes_one_at_a_time_has_a_claim(tmp_path):
    """Also while the file of the lock is removed by one and made by the next."""
    inside = tmp_path / "inside"
    processes = [python(MANY, tmp_path / "runs", inside, 200) for _ in range(4)]
    for process in processes:
        _, error = outcome(process)
        assert process.returncode == 0, error
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_inherited_descriptors_keep_a_claim(tmp_path):
    """As when a sweep is killed, and a point's process needs a moment to die."""
    claims = Claims(tmp_path, lambda line: None)
    taken = claims.take("x", nothing, alone=True)
    assert isinstance(taken, Claim)
    sleeper = subprocess.Popen(["sleep", "600"], pass_fds=taken.descriptors)
    try:
        for descriptor in taken.descriptors:
            os.close(descriptor)
        assert isinstance(claims.take("x", nothing, alone=True), Refusal)
    finally:
        sleeper.kill()
        sleeper.wait()
    again = claims.take("x", nothing, alone=True)
    assert isinstance(again, Claim)
    again.release()

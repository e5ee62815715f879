"""What a sweep does with points that do not end."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.machine import child_process as processes
from harness.machine.child_process import PointProcess, stop_all
from tests.patience import eventually

DEAF = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("ready", flush=True)
signal.pause()
"""
WRITES = """
import sys
print("ready", flush=True)
while True:
    with open(sys.argv[1], "w") as file:
        file.write("x" * 10_000)
"""

COMPUTES = """
import sys, time
print("ready", flush=True)
while time.process_time() < 3.0:
    pass
sys.exit(7)
"""


@pytest.fixture
def point(tmp_path):
    started = []

    def start(code, *words):
        (tmp_path / "its_module.py").write_text(code)
        process = PointProcess(words, tmp_path / "its.log", "its_module")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(tmp_path))
            process.start()
        started.append(process)
        eventually(lambda: process.tail(1) == ["ready"])
        return process

    yield start
    for process in started:
        process.kill()


def test_who_does_not_listen_is_killed_and_told(point):
    said = []
    process = point(DEAF)
    stop_all([process], signal.SIGINT, 0.2, said.append)
    assert process.returncode == -signal.SIGKILL
    fact = "a point did not end within 0.2 s and was killed; its log: "
    assert said == [f"{fact}{process.log_path}"]


def test_who_ends_by_itself_is_not_told(point):
    said = []
    process = point("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    stop_all([process], signal.SIGTERM, 30.0, said.append)
    assert process.returncode == -signal.SIGTERM
    assert said == []


@pytest.mark.parametrize("code", [DEAF, COMPUTES], ids=["idle", "busy"])
@pytest.mark.long
def test_a_process_that_is_waited_for_is_killed_once_it_uses_no_core(point, monkeypatch, code):
    monkeypatch.setattr(processes, "IDLE_TIMEOUT_S", 2.0)
    process = point(code)
    assert process.wait() == (7 if code is COMPUTES else -signal.SIGKILL)
    assert process.returncode is not None


@contextmanager
def frozen(folder: Path):
    """A file system whose writers wait in the kernel, where no signal reaches them."""
    image = folder / "image"
    mounted = folder / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(16 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(mounted)], check=True)
    try:
        yield mounted
    finally:
        subprocess.run(["fsfreeze", "-u", str(mounted)], check=False, capture_output=True)
        eventually(lambda: subprocess.run(["umount", str(mounted)], check=False).returncode == 0)


def can_mount():
    if os.geteuid() != 0 or sys.platform != "linux":
        return False
    done = subprocess.run(["losetup", "-f"], check=False, capture_output=True)
    return done.returncode == 0


@pytest.mark.long
@pytest.mark.skipif(not can_mount(), reason="mounting a file system needs root and a loop device")
def test_who_waits_for_a_disk_that_does_not_answer_holds_up_nobody(point, tmp_path):
    said = []
    with frozen(tmp_path) as mounted:
        process = point(WRITES, str(mounted / "file"))
        subprocess.run(["fsfreeze", "-f", str(mounted)], check=True)
        waits = Path(f"/proc/{process.pid}/stat")
        eventually(lambda: waits.read_text().rpartition(")")[2].split()[0] == "D")
        stop_all([process], signal.SIGINT, 0.2, said.append)
        assert process.returncode is None
        subprocess.run(["fsfreeze", "-u", str(mounted)], check=True)
        eventually(lambda: process.returncode == -signal.SIGKILL)
    (text,) = said
    assert f"(process {process.pid} waits for the system, perhaps for a disk" in text

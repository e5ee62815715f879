"""Several processes store runs of one id at once: none fails, and readers find a whole run."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness.results.records import RunRecords
from harness.results.store import RunStore, iter_runs
from tests.patience import outcome
from tests.refused_calls import can_refuse

ROOT = Path(__file__).parents[2]
WRITES = """
import sys
from pathlib import Path
from harness.results.records import RunRecords
from harness.results.store import RunStore
from tests.refused_calls import refuse

root, name, count, refused = sys.argv[1:]
if refused != "0":
    refuse("renameat2", int(refused), fifth=2)  # RENAME_EXCHANGE
store = RunStore(Path(root))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(count)):
    mark = int(name) * 1000 + number
    with store.create("x", {"mark": mark}, f"mark: {mark}") as writer:
        writer.finish(RunRecords(), {"mark": mark})
"""
NUM_WRITERS = 6


def python(code: str, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, words)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def writers(tmp_path):
    """Starts processes that store at once."""
    processes = []

    def start(count: int, refused: int = 0) -> list[subprocess.Popen[str]]:
        processes.extend(python(WRITES, tmp_path, n, count, refused) for n in range(NUM_WRITERS))
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        return processes

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def assert_whole(run) -> None:
    assert run.config["mark"] == run.manifest["mark"] == run.metrics["mark"]


def assert_all_ended_well(writers, root: Path) -> None:
    for writer in writers:
        _, error = outcome(writer)
        assert writer.returncode == 0, error
    (run,) = iter_runs(root)
    assert_whole(run)
    assert [path.name for path in root.iterdir()] == ["x"]


@pytest.mark.parametrize("count", [20, pytest.param(150, marks=pytest.mark.long)])
def test_every_store_succeeds_and_readers_always_find_a_whole_run(tmp_path, writers, count):
    with RunStore(tmp_path).create("x", {"mark": -1}, "mark: -1") as writer:
        writer.finish(RunRecords(), {"mark": -1})
    started = writers(count)
    marks = set()
    while any(process.poll() is None for process in started):
        run = RunStore(tmp_path).find("x")
        assert run is not None, "the place was empty for a moment"
        assert_whole(run)
        marks.add(run.metrics["mark"])
    assert len(marks) > count / 10, "the reader saw the runs change"
    assert_all_ended_well(started, tmp_path)


@pytest.mark.skipif(not can_refuse(), reason="needs this machine's numbers of system calls")
def test_every_store_succeeds_where_names_cannot_be_exchanged(tmp_path, writers):
    assert_all_ended_well(writers(20, errno.EINVAL), tmp_path)


KILLED_BETWEEN = """
import errno, signal, sys
from pathlib import Path
from harness.results.records import RunRecords
from harness.results.store import RunStore
from tests.refused_calls import refuse

refuse("renameat2", errno.EINVAL, fifth=2)
real = Path.rename
def stopping(path, target):
    real(path, target)
    if str(target).endswith("-replaced"):
        print("between", flush=True)
        signal.pause()
Path.rename = stopping
with RunStore(Path(sys.argv[1])).create("x", {"mark": 2}, "mark: 2") as writer:
    writer.finish(RunRecords(), {"mark": 2})
"""


@pytest.mark.skipif(not can_refuse(), reason="needs this machine's numbers of system calls")
def test_a_process_killed_between_two_renames_loses_no_finished_run(tmp_path):
    store = RunStore(tmp_path)
    with store.create("x", {"mark": 1}, "mark: 1") as writer:
        writer.finish(RunRecords(), {"mark": 1})
    process = python(KILLED_BETWEEN, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "between\n"
    assert store.find("x") is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    store.clear_leftovers()
    run = store.find("x")
    assert run is not None
    assert run.metrics["mark"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["x"]

"""A stopped simulation goes on from its snapshot; one that does not fit is left aside."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import snapshot
from harness.snapshot import FOLDER, Snapshots
from harness.store import load_run
from tests.sweep.test_interruptions import ROOT, eventually, large_trace

WORDS = ["cluster=slots400", "profile=recorded", "tracking=none", "scheduler=tiresias"]
UNREPEATABLE = {"latencies"}
"""Tables that hold wall-clock times."""


def command(folder, trace, *words):
    own = [f"trace={trace}", f"results_dir={folder / 'runs'}", "progress=false", *WORDS, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *own],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def snapshots_in(folder):
    return list((folder / "runs" / FOLDER).glob("*"))


def only_run(folder):
    (path,) = (path for path in (folder / "runs").iterdir() if not path.name.startswith("."))
    return load_run(path)


@pytest.mark.long
def test_a_killed_run_goes_on_and_leaves_the_bytes_of_an_uninterrupted_one(tmp_path):
    """Killed right after a snapshot; the processes have other hash seeds."""
    trace = large_trace(tmp_path, 6000)
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    for folder in (stopped, whole):
        folder.mkdir()
    process = command(stopped, trace, "snapshot_every_s=0.05")
    eventually(lambda: snapshots_in(stopped) or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    again, reference = command(stopped, trace), command(whole, trace, "snapshot_every_s=null")
    for one in (again, reference):
        out, err = one.communicate()
        assert one.returncode == 0, out + err
        if one is again:
            assert "Going on from a snapshot: " in err
    found, expected = only_run(stopped), only_run(whole)
    assert found.run_id == expected.run_id
    kept = {name: digest for name, digest in expected.digests.items() if name not in UNREPEATABLE}
    assert {name: found.digests[name] for name in kept} == kept
    assert len(found.rows("latencies")) == len(expected.rows("latencies"))
    assert found.facts["num_events"] == expected.facts["num_events"]
    assert not snapshots_in(stopped), "a stored run needs none"


class Part:
    """Stands for a scheduler: its package's sources belong to the code version."""


RUN = {"run_id": "a-run", "config_hash": "0" * 64}


@pytest.fixture
def said():
    return []


@pytest.fixture
def make(tmp_path, said):
    def made(**changes):
        options = {
            "path": tmp_path / FOLDER / "a-run",
            "scratch": tmp_path,
            "run": RUN,
            "parts": (Part(),),
            "every_s": 1.0,
            "say": said.append,
        }
        return Snapshots(**options | changes)

    return made


@pytest.fixture
def path(tmp_path, make):
    make().save({"jobs": [1, 2.5]}, "2 of 3 jobs had ended")
    return tmp_path / FOLDER / "a-run"


def test_what_was_saved_is_found_and_said(make, path, said):
    assert make().load() == {"jobs": [1, 2.5]}
    assert said == ["Going on from a snapshot: 2 of 3 jobs had ended."]
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_snapshot_nothing_is_said(make, said):
    assert make().load() is None
    assert said == []


def cut(path):
    path.write_bytes(path.read_bytes()[:-40])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (cut, "damaged (its SHA-256 differs)"),
        (flip, "damaged (its SHA-256 differs)"),
        (lambda path: path.write_bytes(b""), "no snapshot of this version"),
        (lambda path: path.write_bytes(b"elastrace-snapshot 2\n"), "no snapshot of this version"),
        (lambda path: path.chmod(0o622), "others may write to it"),
    ],
)
def test_a_damaged_snapshot_is_left_aside(make, path, said, change, fact):
    change(path)
    assert make().load() is None
    (line,) = said
    assert line.startswith(f"{path}: not used: ")
    assert fact in line
    assert line.endswith("the run starts from its beginning")


def test_one_of_another_run_or_code_is_left_aside(make, path, said, monkeypatch):
    assert make(run={**RUN, "config_hash": "1" * 64}).load() is None
    monkeypatch.setattr(snapshot, "_LIBRARIES", ())
    assert make().load() is None
    assert ["it is of another run" in said[0], "another version of the code" in said[1]] == [1, 1]


def test_one_of_another_user_is_left_aside(make, path, said, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert make().load() is None
    assert "it belongs to user" in said[0]


class Evil:
    """Pickles as a call of a function that is none of the project's."""

    def __reduce__(self):
        return os.system, ("true",)


def test_a_pickle_that_names_anything_else_is_not_read(make, said):
    make().save(Evil(), "never")
    assert make().load() is None
    assert "names posix.system, which is no part" in said[0]


def test_what_cannot_be_saved_is_said_once_and_the_run_goes_on(make, said):
    snapshots = make(every_s=1e-9)
    assert snapshots.due(float("1e12"))
    snapshots.save(lambda: None, "nothing")
    assert not snapshots.due(float("1e12"))
    (line,) = said
    assert line.startswith("no snapshots of this run: ")
    assert make().load() is None


def test_a_snapshot_that_takes_long_is_made_more_seldom(make, monkeypatch):
    clock = iter([0.0, 10.0, 14.0, 14.0])
    monkeypatch.setattr(snapshot.time, "perf_counter", lambda: next(clock))
    snapshots = make(every_s=5.0)
    assert [snapshots.due(4.9), snapshots.due(5.0)] == [False, True]
    snapshots.save([], "a replay")
    assert [snapshots.due(14.0 + 79.9), snapshots.due(14.0 + 80.0)] == [False, True]


def test_the_header_is_a_line_of_json(path):
    magic, header, _ = path.read_bytes().split(b"\n", 2)
    assert magic == b"elastrace-snapshot 1"
    assert json.loads(header) == {
        **RUN, "code": snapshot.code_digest({Part}), "described": "2 of 3 jobs had ended",
    }  # fmt: skip


def test_the_code_is_that_of_the_parts_packages():
    alone, beside = snapshot.code_digest({Part}), snapshot.code_digest({Part, Snapshots})
    assert alone == beside
    assert alone != snapshot.code_digest({Path})

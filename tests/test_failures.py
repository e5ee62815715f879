"""Full disks, read-only folders, closed pipes and binary files: one line, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import outcome
from tests.test_interrupts import ROOT, commands

ONE_RUN = ["trace=five_jobs", "cluster=dgx8", "scheduler=fifo", "tracking=none", "progress=false"]
NO_SPACE = "no space is left on its device; free some, or write elsewhere"
READ_ONLY = "its file system is read-only; write to another folder"


def ended(*words: str, stdout: int | None = subprocess.DEVNULL) -> tuple[int, list[str]]:
    """The exit code of a command, and its lines on standard error."""
    command = subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        # Where every write goes out at once, argparse itself swallows what becomes of its help.
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
    errors = outcome(command)[1]
    return command.returncode, errors.splitlines()


QUICK = ("harness.__main__", "harness.compare", "harness.trace.__main__", "reports.__main__")


@pytest.mark.parametrize(
    "module",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in commands()],
)
def test_output_that_nobody_reads_ends_quietly_and_one_that_has_no_room_is_told(module):
    words = [module.removesuffix(".__main__"), "--help"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        code, lines = ended(*words, stdout=writer)
    finally:
        os.close(writer)
    assert (code, lines) == (141, [])
    with Path("/dev/full").open("w") as full:
        code, lines = ended(*words, stdout=full.fileno())
    assert (code, lines) == (1, [f"Failed: a file or standard output: {NO_SPACE}"])


@pytest.mark.parametrize("words", [("harness", *ONE_RUN), ("harness.trace", "show", "five_jobs")])
def test_a_table_that_nobody_reads_ends_quietly_too(tmp_path, words):
    folder = (f"results_dir={tmp_path}",) if words[0] == "harness" else ()
    reader, writer = os.pipe()
    os.close(reader)
    code, lines = ended(*words, *folder, stdout=writer)
    os.close(writer)
    assert (code, lines) == (141, [])


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own with 64 KiB of room, of which 0 are left."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system, and not everywhere")
    (folder / "filler").write_bytes(bytes(64 << 10))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def writes_to(folder: Path, results: Path) -> dict[str, list[str]]:
    """Commands that write below a folder, whatever they are about."""
    return {
        "run": ["harness", *ONE_RUN, f"results_dir={folder / 'runs'}"],
        "sweep": ["harness", *ONE_RUN, "seed=0,1", f"results_dir={folder / 'runs'}", "-m"],
        "report": [
            *("reports", "--results", str(results), "--out", str(folder / "site")),
            *("--figures", "comparison", "--formats", "svg"),
        ],
        "picture of a trace": ["reports.trace", "five_jobs", "--out", str(folder / "trace.svg")],
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    code, lines = ended("harness", *ONE_RUN, f"results_dir={folder}")
    assert (code, lines) == (0, [])
    return folder


@pytest.mark.parametrize("name", [*writes_to(Path(), Path())])
def test_a_full_disk_is_told_in_one_line(small_disk, results, name):
    code, lines = ended(*writes_to(small_disk, results)[name])
    assert code == 1
    assert len(lines) == 1
    assert str(small_disk) in lines[0] or "a file or standard output" in lines[0]
    assert "space" in lines[0]


@pytest.mark.parametrize("name", [*writes_to(Path(), Path())])
def test_a_read_only_folder_is_told_in_one_line(small_disk, results, name):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    code, lines = ended(*writes_to(small_disk, results)[name])
    assert code == 1
    assert len(lines) == 1
    assert str(small_disk) in lines[0]
    assert "read-only" in lines[0].lower()


@pytest.mark.parametrize(
    "words",
    [
        ["harness", "trace={}"],
        ["harness", "profile={}"],
        ["harness", "study={}"],
        ["harness", "--from", "{}"],
        ["harness.trace", "lint", "{}"],
        ["harness.profile", "lint", "{}"],
    ],
    ids=" ".join,
)
def test_a_binary_yaml_is_refused_with_its_name(tmp_path, words):
    path = tmp_path / "binary.yaml"
    path.write_bytes(bytes(range(128, 256)))
    command = subprocess.run(
        [sys.executable, "-m", *(word.format(path) for word in words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert command.returncode == 2
    assert str(path) in command.stderr + command.stdout
    assert "Traceback" not in command.stderr + command.stdout
    assert "Failed:" not in command.stderr

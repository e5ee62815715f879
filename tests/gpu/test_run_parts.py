"""The program of the GPU set, on a machine without one: what it runs, keeps, ends and refuses."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.gpu.parts import PARTS, Part
from tests.gpu.run_parts import LIMIT_S, main

ROOT = Path(__file__).resolve().parents[2]
MISSING = ("hydra", "omegaconf", "antlr4", "mlflow", "immutables", "highspy")
"""What a machine with a device may lack."""


def sample(name, call, **options):
    return Part(name, f"tests.gpu.sample_parts:{call}", options)


def run(folder, parts, *words, device="a device"):
    words = ("--out", str(folder), "--device", "cpu", *words)
    return main(words, parts, sample("device", "describe", found=device))


def lines(folder):
    text = (folder / "parts.jsonl").read_text()
    return {line["part"]: line for line in map(json.loads, text.splitlines())}


@pytest.fixture
def without_them(tmp_path):
    """An environment whose processes cannot import what a GPU machine may lack."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {MISSING!r}:\n"
        "            raise ModuleNotFoundError(f'{name} is not to be imported', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def test_a_part_that_has_passed_is_not_run_again(tmp_path, capsys):
    parts = [sample("one/a", "count", file=str(tmp_path / "a")), sample("two", "die")]
    assert run(tmp_path / "out", parts, "--part", "one", "--commit", "abc") == 0
    (line,) = lines(tmp_path / "out").values()
    assert line["outcome"] == "passed"
    assert line["numbers"] == {"number": 1, "third": 0.333333, "device": "cpu", "empty": True}
    assert line["device"] == "a device"
    assert line["commit"] == "abc"
    assert line["seconds"] > 0
    machine = json.loads((tmp_path / "out" / "machine.json").read_text())
    assert machine["hardware"]["cores"] >= 1
    assert machine["git_commit"] == "abc"
    assert run(tmp_path / "out", parts, "--part", "one") == 0
    assert "one/a: skipped, passed already" in capsys.readouterr().out
    assert run(tmp_path / "out", parts, "--part", "one/a", "--again") == 0
    assert lines(tmp_path / "out")["one/a"]["numbers"]["number"] == 2


def test_a_part_that_failed_says_why_and_is_run_again(tmp_path, capsys):
    file = tmp_path / "file"
    parts = [
        sample("fails", "fail_unless", file=str(file)),
        sample("dies", "die"),
        sample("counts", "count", file=str(tmp_path / "counts")),
    ]
    assert run(tmp_path / "out", parts) == 1
    assert "1 of 3 parts passed, 2 failed" in capsys.readouterr().out
    found = lines(tmp_path / "out")
    assert found["fails"]["problem"].endswith("AssertionError: the file is not there")
    assert 'File "tests/gpu/sample_parts.py"' in found["fails"]["problem"]
    assert found["dies"]["problem"] == "ended with 3 and no word"
    file.touch()
    assert run(tmp_path / "out", parts[:1]) == 0
    assert lines(tmp_path / "out")["fails"]["outcome"] == "passed"
    assert "problem" not in lines(tmp_path / "out")["fails"]


def test_a_part_is_ended_at_its_limit_and_all_that_it_started(tmp_path):
    file = tmp_path / "pids"
    parts = [
        sample("hangs", "hang", file=str(file)),
        sample("counts", "count", file=str(tmp_path / "counts")),
    ]
    assert run(tmp_path / "out", parts, "--limit-s", "3") == 1
    found = lines(tmp_path / "out")
    assert found["hangs"]["problem"] == "not done within 3 s"
    assert found["counts"]["outcome"] == "passed"
    ours, started = map(int, file.read_text().split())
    assert not psutil.pid_exists(ours)
    while _lives(started):  # until the kernel has seen to it
        psutil.Process().cpu_times()


def _lives(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_a_call_has_no_time_for_is_left_to_the_next(tmp_path, capsys):
    parts = [
        sample("counts", "count", file=str(tmp_path / "counts")),
        sample("hangs", "hang", file=str(tmp_path / "pids")),
        sample("never", "die"),
    ]
    assert run(tmp_path / "out", parts, "--call-s", "4") == 1
    assert [*lines(tmp_path / "out")] == ["counts"]
    assert "1 of 3 parts passed, 0 failed, 2 left" in capsys.readouterr().out


def test_records_of_another_device_are_refused(tmp_path, capsys):
    parts = [sample("counts", "count", file=str(tmp_path / "counts"))]
    assert run(tmp_path / "out", parts) == 0
    assert run(tmp_path / "out", parts, device="another") == 2
    assert "is of a device, this is another; give another --out" in capsys.readouterr().err


def test_parts_are_listed_and_unknown_ones_refused(tmp_path, capsys):
    assert main(["--list", "--part", "bits/peer", "turns"]) == 0
    listed = capsys.readouterr().out.split()
    assert listed[0] == "bits/peer"
    assert listed[1:]
    assert all(name.startswith("turns/") for name in listed[1:])
    assert main(["--part", "bits", "bit"]) == 2
    assert "no part is called bit; known: bits, changes" in capsys.readouterr().err


def test_without_a_device_all_parts_are_skipped_aloud(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert said == f"There is no CUDA device: all {len(PARTS)} parts of the GPU set are skipped.\n"
    assert not (tmp_path / "out").exists()


def test_names_are_unique_and_the_limit_is_under_ten_minutes():
    assert len({part.name for part in PARTS}) == len(PARTS)
    assert LIMIT_S < 600


def test_nothing_of_it_needs_what_a_machine_with_a_device_may_lack(without_them):
    modules = sorted({part.call.partition(":")[0] for part in PARTS} | {"tests.gpu.run_parts"})
    program = f"import importlib\nfor name in {modules!r}:\n    importlib.import_module(name)\n"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=without_them, check=True)
    refused = subprocess.run(
        [sys.executable, "-c", "import harness.configuration.compose"],
        cwd=ROOT, env=without_them, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "hydra is not to be imported" in refused.stderr


SMALLER = {
    "bits/peer": {},
    "bits/death": {},
    "bits/transformer": {},
    "changes/stop_free": {"rounds": 1},
    "state/background": {"rounds": 1, "sizes": (10_000_000,)},
    "start/preimported": {"rounds": 1},
    "turns/transformer": {"pool": "toy", "model": "toy", "steps": 3},
    "packing/resnet50": {"pool": "toy", "model": "toy", "counts": (1, 2), "steps": 2},
    "memory/transformer": {"pool": "toy", "model": "toy", "counts": (1, 4)},
}
"""A part of each kind, and what makes it short."""


LONG = ("bits/death", "changes/stop_free", "turns/transformer", "memory/transformer")


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in LONG else pytest.mark.soak) for name in SMALLER],
)
def test_a_part_of_each_kind_runs_on_the_cpu_too(name, without_them, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", without_them["PYTHONPATH"])
    (part,) = (part for part in PARTS if part.name == name)
    part = replace(part, options={**part.options, **SMALLER[name]})
    assert main(["--device", "cpu", "--out", str(tmp_path / "out")], [part]) == 0
    (line,) = lines(tmp_path / "out").values()
    assert line["outcome"] == "passed"
    assert line["numbers"]
    assert line["torch"]


def test_every_kind_of_part_is_among_them():
    assert {name.partition("/")[0] for name in SMALLER} == {
        part.name.partition("/")[0] for part in PARTS
    }

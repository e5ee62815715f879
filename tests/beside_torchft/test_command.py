"""The comparison with torchft: really run where that is installed, refused in words where not."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IS_THERE = importlib.util.find_spec("torchft") is not None


def compare(*words):
    command = [sys.executable, "-m", "harness.bench.torchft", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)


@pytest.mark.skipif(IS_THERE, reason="torchft is installed")
def test_without_torchft_it_says_how_to_get_it():
    done = compare("--workers", "1", "--trials", "0", "--heartbeat-s", "nan")
    assert done.returncode == 2
    assert "pip install 'elastrace[torchft]'" in done.stderr
    for fact in ("--workers: is 1", "--trials: is 0", "--heartbeat-s: is nan"):
        assert fact in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.skipif(not IS_THERE, reason="torchft is not installed (elastrace[torchft])")
def test_both_grow_and_lose_a_worker(tmp_path):
    words = ["--workloads", "toy/toy", "--trials", "1"]
    words += ["--work", str(tmp_path / "work"), "--to", str(tmp_path / "to")]
    done = compare(*words)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "to").rglob("record.json")
    (cell,) = json.loads(path.read_text())["cells"]
    assert set(cell["medians"]) == {"torchft", "stop_free"}
    for system, own in cell["medians"].items():
        assert (own["trials"], own["failed"]) == (1, 0), system
        assert 0 < own["stopping_time_s"] < own["scaling_time_s"], system
        assert own["recovery_s"] > 0, system
    again = compare(*words)
    assert again.returncode == 0
    assert json.loads(path.read_text())["cells"] == [cell]  # nothing was measured anew

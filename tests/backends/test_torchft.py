"""The study of torchft: really run where it is installed, refused in words where it is not."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IS_THERE = importlib.util.find_spec("torchft") is not None


def study(*words):
    command = [sys.executable, "-m", "systems.torchft", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)


@pytest.mark.skipif(IS_THERE, reason="torchft is installed")
def test_without_torchft_the_study_says_how_to_get_it():
    done = study("--trials", "1")
    assert done.returncode == 2
    assert "pip install 'elastrace[torchft]'" in done.stderr


@pytest.mark.long
@pytest.mark.skipif(not IS_THERE, reason="torchft is not installed (elastrace[torchft])")
def test_a_replica_joins_and_one_dies():
    done = study("--trials", "1", "--heartbeat-s", "2")
    assert done.returncode == 0, done.stderr
    trial = json.loads(done.stdout)
    assert trial["crashed"] == []
    assert 0 < trial["pause_s"] < trial["scaling_time_s"]
    assert trial["recovery_s"] > 0

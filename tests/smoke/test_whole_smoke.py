"""The short check itself: a wrong expectation is told, and Ctrl-C ends it."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.files.bounded_file import read_text
from harness.files.gz_text import text_path
from harness.results.store import CONFIG, REFERENCE, iter_runs
from harness.smoke.__main__ import main
from harness.smoke.checks import replays
from tests.patience import outcome

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def reference(tmp_path):
    """Two runs, one with a changed metric, one of another configuration; and a wrong verdict.

    Of the second the folder of the check holds a copy, as if an earlier check had made it.
    """
    changed, outdated = replays(iter_runs(ROOT / REFERENCE))[:2]
    folder = tmp_path / "reference"
    machine = folder / "machine"
    copies = [machine / run.manifest["sweep"] / run.run_id for run in (changed, outdated)]
    for run, copy in zip((changed, outdated), copies, strict=True):
        shutil.copytree(run.path, copy)
    path = copies[0] / "metrics.json"
    metrics = json.loads(path.read_text())
    path.write_text(json.dumps(metrics | {"jct_mean_s": metrics["jct_mean_s"] + 1.0}))
    config = yaml.safe_load(read_text(text_path(copies[1], CONFIG)))
    text_path(copies[1], CONFIG).unlink()
    (copies[1] / CONFIG).write_text(yaml.safe_dump(config | {"seed": 77}))
    shutil.copytree(copies[1], tmp_path / "out" / "runs" / outdated.run_id)
    (folder / "verdicts.json").write_text(
        json.dumps({"edl-headline-jct": {"status": "tested", "direction": "fails", "criteria": {}}})
    )
    return folder


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_wrong_expectations_are_told_beside_what_passes(reference, tmp_path, capsys):
    assert main(["--reference", str(reference), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().out.splitlines()
    failed = [line for line in said if line.startswith("FAIL  ")]
    assert len(failed) == 3, said
    assert "differ in jct_mean_s" in failed[0]
    assert "has another id today" in failed[1]
    assert failed[2].startswith("FAIL  verdicts: ")
    assert sum(line.startswith("PASS  MLflow has ") for line in said) == 4
    assert "PASS  virtual_thread: the bits are those of stock training on fixed workers" in said
    checks = len(said) - 1
    assert said[-1].startswith(f"FAIL: {checks - len(failed)} of {checks} checks passed")


@pytest.mark.soak
def test_ctrl_c_stops_it_with_its_command(tmp_path):
    words = [sys.executable, "-m", "harness.smoke", "--out", str(tmp_path / "out")]
    smoke = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert smoke.stderr is not None
    assert smoke.stderr.readline().startswith("... 1 of ")
    smoke.send_signal(signal.SIGINT)
    _, errors = outcome(smoke, 120.0, tmp_path)
    assert smoke.returncode == 130
    assert "Stopped: workers are gone." in errors
    assert "Traceback" not in errors

"""The script written from ``docs/reference/bits.md`` alone gives the bits of runs made here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "examples" / "bits_by_stock_torch.py"
CHANGED = "toy-1"
"""The job whose copy has a wrong value: the one with the fewest workers."""


def python(*words):
    """Run Python in a process, as a reader of the page would."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def expected(name, job):
    """Begin the lines that every step of a job has."""
    for kind, run in job["runs"].items():
        for step, digests in enumerate(run["digests"], start=1):
            for what in ("loss", "learning_rate", *digests):
                yield f"{name} {step} {kind} {what}"


@pytest.mark.long
# Some twenty processes import torch, which takes minutes on a busy machine.
@pytest.mark.timeout(1800)
def test_stock_torch_gives_what_runs_here_record_and_names_a_wrong_value(tmp_path):
    """Two calls share the jobs out, for the sake of time: each job is compared in one of them."""
    path, copy = tmp_path / "bits.json", tmp_path / "copy.json"
    made = python("-m", "tests.consistency.run_bits", "--out", path)
    assert made.returncode == 0, made.stderr
    jobs = json.loads(path.read_text(encoding="utf-8"))["jobs"]

    others = [name for name in jobs if name != CHANGED]
    done = python(SCRIPT, "--vectors", path, "--jobs", *others)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = {line.removeprefix("PASS ") for line in done.stdout.splitlines()}
    assert not [line for line in passed if line.startswith("FAIL")]
    assert {line for name in others for line in expected(name, jobs[name])} <= passed

    vectors = json.loads(path.read_text(encoding="utf-8"))
    digests = vectors["jobs"][CHANGED]["runs"]["virtual_thread"]["digests"][1]
    right = digests["digest_parameters"]
    wrong = digests["digest_parameters"] = right[::-1]
    copy.write_text(json.dumps(vectors), encoding="utf-8")
    done = python(SCRIPT, "--vectors", copy, "--jobs", CHANGED)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    what = f"{CHANGED} 2 virtual_thread digest_parameters"
    assert [line for line in lines if not line.startswith("PASS ")] == [
        f"FAIL {what}: have {right}, want {wrong}"
    ]
    passed = {line.removeprefix("PASS ") for line in lines}
    assert set(expected(CHANGED, jobs[CHANGED])) - {what} <= passed


@pytest.mark.long
def test_a_job_that_the_file_does_not_have_is_refused():
    done = python(SCRIPT, "--jobs", "toy-3", "toy-9")
    assert done.returncode == 2
    assert "toy-9 not in the file; known: toy-1, transformer-2, toy-3, vgg-3" in done.stderr

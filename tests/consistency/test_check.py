"""Live runs whose jobs are trained again on fixed workers, with real processes."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from harness.consistency.__main__ import main as consistency
from harness.results.store import load_run
from harness.validate import check_run
from tests.config.commands import command
from tests.consistency.worlds import checked, grow_and_shrink, write_files
from tests.patience import eventually, outcome

__all__ = ["command"]
WITHIN_S = 120.0


def only_run(command):
    (path,) = command.results.iterdir()
    return load_run(path)


def kept(command):
    return sorted((command.results.parent / "fixed_size").iterdir())


@pytest.mark.long
def test_a_job_that_grew_and_shrank_is_what_two_fixed_workers_train(tmp_path, command):
    answer = command(*checked(write_files(tmp_path), *grow_and_shrink()))
    assert answer.code == 0, answer.err
    assert "Bitwise equal to training on fixed workers: 1 of 1 finished jobs." in answer.out
    run = only_run(command)
    assert run.metrics["bitwise_equal"] == 1
    assert run.metrics["reference_wall_s"] > 0
    assert {len(grant.slots) for grant in run.records.grants} == {1, 2}
    (row,) = run.records.fixed_size
    assert (row.num_workers, row.num_steps, row.different, row.equal_steps) == (2, 60, "", 60)
    (path,) = kept(command)
    assert path.stem == row.reference
    assert not (run.path / "fixed_size").exists(), "what the program wrote is kept elsewhere"
    assert check_run(run.path) == []
    assert consistency([str(run.path), str(path)]) == 0


@pytest.mark.long
def test_what_differs_is_found_and_nothing_is_trained_twice(tmp_path, command):
    words = checked(write_files(tmp_path), *grow_and_shrink())
    assert command(*words).code == 0
    (path,) = kept(command)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[41]["losses"][1] = "0x1p0"
    lines[-1]["digest_buffers"] = "0"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    changed_at = path.stat().st_mtime_ns
    answer = command(*words, "force=true")
    assert answer.code == 0
    assert path.stat().st_mtime_ns == changed_at
    run = only_run(command)
    assert run.metrics["bitwise_equal"] == 0
    (row,) = run.records.fixed_size
    assert (row.different, row.equal_steps) == ("digest_buffers", 41)
    assert "0 of 1 finished jobs" in answer.out
    assert "digest_buffers differ from 2 fixed workers" in answer.out
    assert "losses do from step 42 on" in answer.out
    assert consistency([str(run.path), str(path)]) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("backend.reconfigure=checkpoint", *grow_and_shrink()),
        ("backend.random_states=per_step", *grow_and_shrink()),
        ("backend=static", "backend.start=preimported", "scheduler=fifo"),
    ],
)
def test_other_backends_and_options_that_promise_bits(tmp_path, command, words):
    paths = write_files(tmp_path, num_jobs=2, logical_workers=3)
    answer = command(*checked(paths, *words))
    assert answer.code == 0, answer.err
    run = only_run(command)
    assert run.metrics["bitwise_equal"] == 1
    assert len(run.records.fixed_size) == len(kept(command)) == 2


@pytest.mark.long
def test_bits_outlive_workers_that_are_killed(tmp_path, command):
    paths = write_files(tmp_path, steps=250, logical_workers=4, step_s=0.03)
    share = ("scheduler=uniform", "scheduler.use_throughput=false")
    faults = ("engine.faults.count=2", "engine.faults.settle_s=0.5")
    words = [word.replace("engine=live", "engine=live_faults") for word in checked(paths)]
    answer = command(*words, "cluster=cpu4", *share, *faults)
    assert answer.code == 0, answer.err
    run = only_run(command)
    assert run.metrics["bitwise_equal"] == 1
    assert run.records.faults


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.long
@pytest.mark.parametrize(
    "signum", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak), signal.SIGKILL]
)
def test_no_fixed_worker_outlives_a_run_that_is_stopped(tmp_path, signum):
    paths = write_files(tmp_path, steps=400, step_s=0.05)
    results = tmp_path / "results"
    words = [*checked(paths, "scheduler=fifo", "tracking=none"), f"results_dir={results / 'runs'}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *words],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    try:
        lines = iter(process.stderr.readline, "")
        assert any(line.startswith("reference 1 of 1: small, 400 steps on 2") for line in lines)
        own = psutil.Process(process.pid)
        eventually(
            lambda: len(own.children(recursive=True)) >= 3, WITHIN_S
        )  # script and two workers
        workers = [child.pid for child in own.children(recursive=True)]
        process.send_signal(signum)
        _, error = outcome(process, WITHIN_S)
    finally:
        process.kill()
    expected = {signal.SIGINT: 130, signal.SIGTERM: 143}.get(signum, -signum)
    assert process.returncode == expected
    assert "Traceback" not in error
    eventually(lambda: all(is_gone(pid) for pid in workers), WITHIN_S)
    assert not (results / "fixed_size").exists()
    left = [path.name for path in (results / "runs").iterdir()]
    # Files of locks that nobody holds any more: the next command takes them.
    assert all(name.startswith((".partial-", ".claim-", ".machine-")) for name in left)
    assert bool(left) == (signum == signal.SIGKILL)

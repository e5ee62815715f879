"""Ctrl-C, SIGTERM and SIGKILL from outside: nothing is left behind, and work goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from harness.configuration.compose import CONFIG_DIR
from tests.patience import WITHIN_S, eventually, outcome

ROOT = Path(__file__).resolve().parents[2]
LONG = ["trace=philly", "cluster=slots400", "tracking=none", "progress=false"]


def start(folder, *words, common=LONG):
    command = [sys.executable, "-m", "harness", *common, f"results_dir={folder / 'runs'}", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def partial_runs(folder):
    return list((folder / "runs").glob(".partial-*"))


def finished_runs(folder):
    return [path for path in (folder / "runs").glob("*") if not path.name.startswith(".")]


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def large_trace(folder, num_jobs=12000):
    """A part of philly that takes seconds."""
    path = folder / "large.yaml"
    config = yaml.safe_load((CONFIG_DIR / "trace" / "philly.yaml").read_text(encoding="utf-8"))
    config["reader"]["path"] = str(CONFIG_DIR / "trace" / config["reader"]["path"])
    first = {"_target_": "harness.trace.transforms.FirstJobs", "count": num_jobs}
    path.write_text(yaml.safe_dump({**config, "transforms": [*config["transforms"], first]}))
    return path


@pytest.fixture
def started():
    processes = []
    yield lambda *words, **how: processes.append(start(*words, **how)) or processes[-1]
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_stops_and_stores_nothing(tmp_path, started, signum, code):
    process = started(tmp_path)
    eventually(lambda: partial_runs(tmp_path))
    process.send_signal(signum)
    _, error = outcome(process, logs=tmp_path)
    assert process.returncode == code
    assert "The same command runs it again." in error
    assert "Traceback" not in error
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)],
)
def test_a_sweep_stops_its_points(tmp_path, started, signum, code):
    process = started(tmp_path, "seed=0,1,2", "-m")
    eventually(lambda: partial_runs(tmp_path))
    points = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    assert points
    process.send_signal(signum)
    output, error = outcome(process, logs=tmp_path)
    assert process.returncode == code
    assert "3 points are left; the same command continues with them." in output
    assert "Traceback" not in output + error
    assert all(is_gone(pid) for pid in points)
    assert list((tmp_path / "runs").iterdir()) == []


def test_after_ctrl_c_a_study_of_studies_begins_no_other(tmp_path, started):
    path = tmp_path / "both.yaml"
    path.write_text("description: d\nstudies: [bench_philly, saxena_fig6]\n")
    process = started(tmp_path, f"study={path}", common=["tracking=none"])
    eventually(lambda: partial_runs(tmp_path))
    process.send_signal(signal.SIGINT)
    output, error = outcome(process, logs=tmp_path)
    assert process.returncode == 130
    assert "bench_philly" in output
    assert "saxena_fig6" not in output
    assert "Traceback" not in output + error
    assert list((tmp_path / "runs").iterdir()) == []


def test_points_die_with_a_sweep_that_is_killed_and_it_resumes(tmp_path, started):
    words = (f"trace=itp195,{large_trace(tmp_path)}", "scheduler=fifo", "-m")
    process = started(tmp_path, *words)
    eventually(lambda: len(finished_runs(tmp_path)) == 1 and len(partial_runs(tmp_path)) == 1)
    points = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    process.kill()
    process.communicate()
    eventually(lambda: all(is_gone(pid) for pid in points))
    (finished,) = finished_runs(tmp_path)
    assert len(partial_runs(tmp_path)) == 1
    created = finished.stat().st_ctime_ns

    resumed = started(tmp_path, *words)
    output, error = outcome(resumed, 4 * WITHIN_S, tmp_path)
    assert resumed.returncode == 0, error
    assert " stored " in output
    assert " done " in output
    assert finished.stat().st_ctime_ns == created
    assert len(finished_runs(tmp_path)) == 2
    assert partial_runs(tmp_path) == []


LIVE = ["trace=itp195_short", "profile=published_mixed", "cluster=cpu2", "engine=live", "--point"]


def descendants(process):
    try:
        return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def processes_of(folder):
    """Processes that were started for runs below a folder, whoever their parent is now."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        words = process.info["cmdline"] or []
        if any(str(folder) in word for word in words):
            found.append(process.info["pid"])
    return found


@pytest.mark.parametrize(
    "signum",
    [
        signal.SIGKILL,
        *(pytest.param(one, marks=pytest.mark.long) for one in (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_no_worker_outlives_a_live_run(tmp_path, started, signum):
    process = started(tmp_path, *LIVE)
    eventually(lambda: list((tmp_path / "runs").glob(".partial-*/jobs/*/*")))
    eventually(lambda: len(descendants(process)) >= 2)
    workers = descendants(process)
    process.send_signal(signum)
    _, error = outcome(process, logs=tmp_path)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(signum, -signum)
    assert "Traceback" not in error
    eventually(lambda: all(is_gone(pid) for pid in workers))
    eventually(lambda: not processes_of(tmp_path))
    assert finished_runs(tmp_path) == []

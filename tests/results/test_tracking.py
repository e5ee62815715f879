"""MLflow mirrors stored runs, and can be filled again from them after it was erased."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient
from sample_runs import write_run

from harness.answer.answer import answer
from harness.cli import main as run_command_line
from harness.results import verification_levels as levels
from harness.results.records import StepRecord
from harness.results.store import StoredRun
from harness.tracking import mirror as tracking
from harness.tracking import rows as tracking_rows
from harness.tracking.__main__ import main
from reports.__main__ import main as draw


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    return {
        "uri": f"sqlite:///{tmp_path}/mlflow/mlflow.db",
        "artifacts": f"{tmp_path}/mlflow/artifacts",
        "experiment": "elastrace",
    }


def mirrored(uri: str) -> dict[str, SimpleNamespace]:
    """Everything that MLflow holds, by our run id."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("elastrace")
    assert experiment is not None
    held = {}
    for found in client.search_runs([experiment.experiment_id]):
        run_id = found.info.run_id
        held[found.data.tags["run_id"]] = SimpleNamespace(
            metrics=dict(found.data.metrics),
            params=dict(found.data.params),
            tags={k: v for k, v in found.data.tags.items() if k != "mlflow.user"},
            status=found.info.status,
            times=(found.info.start_time, found.info.end_time),
            dataset=[(i.dataset.name, i.dataset.digest) for i in found.inputs.dataset_inputs],
            curves={
                key: [
                    (m.step, m.value, m.timestamp) for m in client.get_metric_history(run_id, key)
                ]
                for key in found.data.metrics
                if "/" in key
            },
            files=sorted(
                item.path
                for folder in client.list_artifacts(run_id)
                for item in client.list_artifacts(run_id, folder.path)
            ),
        )
    return held


def fill(results: Path, config: dict[str, str]) -> str:
    """What the command says; in a process of its own, since MLflow keeps files open."""
    words = [sys.executable, "-m", "harness.tracking", "--results", str(results)]
    words += [f"--{key}={value}" for key, value in config.items()]
    root = Path(__file__).parents[2]
    return subprocess.run(
        words, cwd=root, check=True, text=True, capture_output=True
    ).stdout.strip()


@pytest.mark.long
def test_mirror_report_and_refill_after_erasing(tmp_path: Path, config: dict[str, str]) -> None:
    results = tmp_path / "results"
    live = write_run(results, live=True)
    simulated = write_run(results, scheduler="uniform")
    tracking.prepare(config)
    assert tracking.mirror(live, config)
    assert tracking.mirror(simulated, config)
    assert not tracking.mirror(live, config), "the same run is not mirrored twice"
    held = mirrored(config["uri"])
    assert set(held) == {live.run_id, simulated.run_id}
    check_contents(live, held[live.run_id])

    report = tmp_path / "site"
    report.mkdir()
    (report / "jct.png").write_bytes(b"png")
    (report / "figures.json").write_text(f'[{{"file": "jct.png", "run_ids": ["{live.run_id}"]}}]')
    assert tracking.attach_report(report / "figures.json", config) == 1
    held = mirrored(config["uri"])
    assert "report/jct.png" in held[live.run_id].files
    assert "report/jct.png" not in held[simulated.run_id].files

    again = write_run(results, live=True, git_commit="f" * 40)
    assert tracking.mirror(again, config), "other contents replace the run"
    assert tracking.refill([results], config) == (0, 2, [])
    committed = tmp_path / "reference"
    write_run(committed, live=True, git_commit="e" * 40)
    assert tracking.refill([results, committed], config) == (0, 2, []), "of two the first counts"
    held = mirrored(config["uri"])
    assert len(held) == 2
    assert held[live.run_id].tags["commit"] == "f" * 40

    shutil.rmtree(tmp_path / "mlflow")
    assert fill(results, config) == "MLflow: 2 runs added, 0 were in MLflow already"
    config["uri"] = f"sqlite:///{tmp_path}/mlflow/../mlflow/mlflow.db"  # not the erased file
    assert mirrored(config["uri"]) == held


@pytest.mark.long
def test_the_search_that_a_page_names_finds_its_runs(
    tmp_path: Path, config: dict[str, str]
) -> None:
    wanted = [
        write_run(tmp_path / "runs", sweep="elasticflow_fig6", scheduler=name).run_id
        for name in ("fifo", "edf")
    ]
    write_run(tmp_path / "runs", sweep="edl_table3", scheduler="uniform")
    fill(tmp_path / "runs", config)
    words = ["--results", str(tmp_path / "runs"), "--out", str(tmp_path / "site")]
    assert draw([*words, "--formats", "png"]) == 0
    page = tmp_path / "site" / "studies" / "elasticflow_fig6" / "index.html"
    (search,) = re.findall(r"<code>(tags\.\S+ = .*?)</code>", page.read_text(encoding="utf-8"))
    client = MlflowClient(config["uri"])
    experiment = client.get_experiment_by_name("elastrace")
    assert experiment is not None
    found = client.search_runs([experiment.experiment_id], html.unescape(search))
    assert sorted(run.data.tags["run_id"] for run in found) == sorted(wanted)


def check_contents(run: StoredRun, held: SimpleNamespace) -> None:
    numbers = {k: v for k, v in held.metrics.items() if "/" not in k}
    last = {step.job_id: float.fromhex(step.loss_hex) for step in run.records.steps}
    assert numbers.pop("last_loss_mean") == pytest.approx(sum(last.values()) / len(last))
    assert numbers.pop("last_accuracy_mean") == 0.75
    assert numbers == run.metrics
    assert held.status == "FINISHED"
    assert held.params["setting.backend.start"] == "cold"
    assert held.params["setting.seed"] == "0"
    wanted = {
        "sweep": "demo", "system": "stop_resume", "scheduler": "fifo", "workload": "tiny",
        "trace": "five_jobs", "cluster": "cpu4", "engine": "live", "pace": "none",
        "elastrace.emulated": "false", "commit": run.manifest["git_commit"],
        "config_hash": run.manifest["config_hash"], "checked": "exact",
        "hardware": "Example CPU, 2 cores, no accelerator",
    }  # fmt: skip
    assert {key: held.tags.get(key) for key in wanted} == wanted
    assert held.tags["mlflow.runName"] in (
        "fifo, stop_resume, five_jobs, live, seed 0",
        "fifo, live",
    )
    block = answer([run])
    assert block is not None
    assert held.tags["mlflow.note.content"] == (
        f"{block.markdown()}\n\nfifo (exact). {levels.MEANING}\n\n"
        f"Run it again: python -m harness --from {run.path / 'config.yaml'}"
    )
    assert held.tags["mlflow.source.name"] == (
        f"python -m harness --from {run.path / 'config.yaml'}"
    )
    assert held.dataset == [("five_jobs", "d" * 36)]
    step = run.records.steps[0]
    history = held.curves[f"loss/{step.job_id}"]
    assert [entry[0] for entry in history] == list(range(1, 9))
    assert history[0][1] == float.fromhex(step.loss_hex)
    assert history[0][2] == held.times[0] + int(1000 * (step.started_s + step.duration_s))
    assert len(held.curves["system/cpu_utilization_percentage"]) == len(run.records.system)
    assert "system/system_memory_usage_megabytes" in held.curves
    assert held.files == sorted(f"run/{path.name}" for path in run.files())


def test_nothing_is_mirrored_when_tracking_is_off(tmp_path: Path) -> None:
    config = {"enabled": False, "uri": f"sqlite:///{tmp_path}/mlflow.db"}
    tracking.prepare(config)
    assert not tracking.mirror(write_run(tmp_path / "results"), config)
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_a_failing_store_says_that_the_run_is_safe_and_how_to_mirror_it(tmp_path: Path) -> None:
    (tmp_path / "mlflow").write_text("a file where a folder must be")
    config = {"uri": f"sqlite:///{tmp_path}/mlflow/mlflow.db", "artifacts": f"{tmp_path}/a"}
    run = write_run(tmp_path / "results")
    hint = r"safe in the results folder.*python -m harness\.tracking"
    with pytest.raises(tracking.TrackingError, match=hint):
        tracking.mirror(run, config)
    with pytest.raises(tracking.TrackingError, match=hint):
        tracking.prepare(config)


def test_a_moved_store_is_named_with_the_way_out(tmp_path: Path, config: dict[str, str]) -> None:
    tracking.prepare(config)
    with pytest.raises(tracking.TrackingError, match=r"the store was moved\. Remove its folder"):
        tracking.prepare(config | {"artifacts": str(tmp_path / "elsewhere")})


def test_unknown_keys_are_refused_with_the_known_ones() -> None:
    with pytest.raises(tracking.TrackingError, match=r"unknown keys url; known: uri, artifacts"):
        tracking.target({"url": "x"})


def test_long_curves_are_thinned_and_keep_both_ends(tmp_path: Path) -> None:
    run = write_run(tmp_path, live=True)
    run.records.steps[:] = [
        StepRecord("job/1?", step, 2, 32, float(step), 0.5, (1.0 / step).hex())
        for step in range(1, 5001)
    ]
    losses = [point for point in tracking_rows.curves(run) if point.key.startswith("loss/")]
    assert len(losses) == tracking_rows.CURVE_POINTS
    assert {point.key for point in losses} == {"loss/job/1_"}
    for job_id, name in (("../b", "__/b"), ("./a", "_/a"), ("/c", "_/c")):
        run.records.steps[:] = [StepRecord(job_id, 1, 2, 32, 1.0, 0.5, (1.0).hex())]
        assert f"loss/{name}" in {point.key for point in tracking_rows.curves(run)}
    assert [losses[0].step, losses[-1].step] == [1, 5000]
    assert [point.step for point in losses] == sorted({point.step for point in losses})


HOLDS = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def held_lock(tmp_path: Path) -> Iterator[Path]:
    """The lock of the store, held by another process."""
    path = tmp_path / "mlflow" / "mlflow.db.lock"
    path.parent.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield path
    process.communicate()


def test_a_store_that_another_process_has_is_waited_for_once_and_filled_later(
    tmp_path: Path,
    config: dict[str, str],
    held_lock: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tracking, "LOCK_WAIT_S", 0.3)
    results = tmp_path / "runs"
    words = ["trace=five_jobs", "cluster=dgx8", "scheduler=fifo", "seed=0,1", "-m"]
    words += [f"tracking.{key}={config[key]}" for key in ("uri", "artifacts")]
    assert run_command_line([*words, f"results_dir={results}", "progress=false"]) == 0
    said = capsys.readouterr().err
    assert said.count(f"Waiting up to 0.3 s for {held_lock}: another process has it.\n") == 1
    (warning,) = (line for line in said.splitlines() if line.startswith("warning: "))
    assert f"warning: {held_lock}: another process has had this lock for 0.3 s" in warning
    command = warning.rpartition("later: ")[2]
    expected = f"python -m harness.tracking fill --results {results} --uri {config['uri']}"
    assert command == f"{expected} --artifacts {config['artifacts']}"
    with pytest.raises(tracking.LockedError):
        tracking.prepare(config)
    monkeypatch.setattr(tracking, "LOCK_WAIT_S", 0.1)
    assert main(command.split()[3:]) == 2


@pytest.mark.long
def test_two_processes_that_mirror_the_same_runs_make_no_copies(
    tmp_path: Path, config: dict[str, str]
) -> None:
    for name in ("fifo", "edf", "uniform"):
        write_run(tmp_path / "runs", scheduler=name, live=True)
    words = [sys.executable, "-m", "harness.tracking", "--results", str(tmp_path / "runs")]
    words += [f"--{key}={value}" for key, value in config.items()]
    root = Path(__file__).parents[2]
    fillers = [
        subprocess.Popen(words, cwd=root, text=True, stdout=subprocess.PIPE) for _ in range(3)
    ]
    said = [filler.communicate()[0] for filler in fillers]
    assert [filler.returncode for filler in fillers] == [0, 0, 0]
    assert sum(int(line.split()[1]) for line in said) == 3, said
    client = MlflowClient(config["uri"])
    experiment = client.get_experiment_by_name("elastrace")
    assert experiment is not None
    found = client.search_runs([experiment.experiment_id], run_view_type=ViewType.ALL)
    assert len(found) == 3, "none was made twice or deleted"

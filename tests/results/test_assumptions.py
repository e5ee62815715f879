"""What a run assumes, and what its trace recorded, is told wherever its results are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli import main
from harness.compare import main as compare
from harness.comparison import assumptions
from harness.comparison.as_recorded import recorded_rows
from harness.results.store import StoredRun, iter_runs
from harness.tracking import rows as tracking_rows
from reports.__main__ import main as draw

LOG = """id,submitted,began,ended,gpus,model
a,2024-01-01 00:00:00,2024-01-01 00:10:00,2024-01-01 01:10:00,4,bert
b,2024-01-01 00:05:00,2024-01-01 00:20:00,2024-01-01 02:20:00,8,bert
c,2024-01-01 00:30:00,2024-01-01 01:30:00,2024-01-01 02:00:00,2,bert
"""
COLUMNS = {"job_id": "id", "arrival": "submitted", "start": "began", "end": "ended"}
OUTCOMES = "JCT mean 5,900.0 s, queueing mean 1,700.0 s, makespan 8,400.0 s"
"""By hand: 70, 135 and 90 minutes of which 10, 15 and 60 waiting; from 0:00 to 2:20."""
UNNAMED = "the trace names no program: a job on w slots is assumed to be w times as fast"
FREE = "starts and changes of jobs cost no time (the profile says: not published; zero assumed"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A trace of three jobs whose programs have no names."""
    return written(tmp_path)


def written(folder: Path, *transforms: dict[str, Any], **columns: str) -> Path:
    (folder / "lab.csv").write_text(LOG)
    reader = {
        "_target_": "harness.trace.columns.ColumnsReader",
        "path": "lab.csv",
        "columns": {**COLUMNS, "slots": "gpus", **columns},
        "units": dict.fromkeys(("arrival", "start", "end"), "date"),
    }
    document = {"name": "lab", "source": "a test", "licence": "none", "reader": reader}
    path = folder / "lab.yaml"
    path.write_text(yaml.safe_dump({**document, "transforms": list(transforms)}))
    return path


def simulated(folder: Path, trace: Path | str, *words: str) -> StoredRun:
    common = ["scheduler=fifo", "tracking=none", "progress=false", f"results_dir={folder / 'runs'}"]
    assert main([f"trace={trace}", *common, *words]) == 0
    return max(iter_runs(folder / "runs"), key=lambda run: run.path.stat().st_ctime_ns)


def told(run: StoredRun) -> dict[str, str]:
    return {each.name: each.text for each in assumptions.of_run(run)}


def test_terminal_compare_report_and_mlflow_tell_the_same(tmp_path, lab, capsys):
    run = simulated(tmp_path, lab, "cluster=dgx8")
    output = capsys.readouterr().out
    assert set(told(run)) == {"programs", "changes"}
    texts = list(told(run).values())
    assert all(f"warning: {text}" in output for text in texts)
    assert texts[0].startswith(UNNAMED)
    assert texts[1].startswith(FREE)
    assert compare([str(tmp_path / "runs")] * 2) == 0
    output = capsys.readouterr().out
    assert all(f"warning: {text}" in output for text in texts)
    tags = tracking_rows.tags(run)
    assert [tags["assumption.programs"], tags["assumption.changes"]] == texts
    page = tmp_path / "site"
    words = ["--results", str(tmp_path / "runs"), "--out", str(page), "--formats", "svg"]
    assert draw([*words, "--figures", "comparison"]) == 0
    shown = (page / "index.html").read_text()
    unfolded = shown.partition("<details")[0]
    assert all(f"Warning: {text}." in unfolded for text in texts)


@pytest.mark.long
def test_outcomes_as_recorded_are_next_to_those_of_the_replay(tmp_path, lab, capsys):
    simulated(tmp_path, lab, "cluster=dgx8")
    assert f"As recorded: {OUTCOMES}" in capsys.readouterr().out
    common = ["cluster=dgx8", "tracking=none", "progress=false", f"results_dir={tmp_path / 'runs'}"]
    assert main([f"trace={lab}", "scheduler=fifo,tiresias", *common, "-m"]) == 0
    assert "as recorded" in capsys.readouterr().out
    assert compare([str(tmp_path / "runs")] * 2) == 0
    assert f"As recorded: {OUTCOMES}" in capsys.readouterr().out
    words = ["--results", str(tmp_path / "runs"), "--out", str(tmp_path / "site")]
    assert draw([*words, "--figures", "comparison", "--formats", "svg"]) == 0
    assert f"As recorded: {OUTCOMES}." in (tmp_path / "site" / "index.html").read_text()


FASTER = {"_target_": "harness.trace.transforms.CompressArrivals", "factor": 2.0}
FEWER = {"_target_": "harness.trace.transforms.FirstJobs", "count": 2}


def test_what_was_recorded_of_another_load_is_not_shown(tmp_path):
    assert simulated(tmp_path, written(tmp_path, FASTER)).manifest["trace"]["as_recorded"] is None


def test_what_was_recorded_of_the_jobs_that_are_left_is_shown(tmp_path):
    found = simulated(tmp_path, written(tmp_path, FEWER)).manifest["trace"]["as_recorded"]
    assert found == {
        "jobs": 2.0,
        "jct_mean_s": (4200 + 8100) / 2,
        "queueing_mean_s": (600 + 900) / 2,
        "makespan_s": 8400.0,
    }


def test_recorded_starts_change_neither_jobs_nor_digest(tmp_path):
    with_start = simulated(tmp_path, written(tmp_path)).manifest["trace"]
    text = LOG.replace("00:10:00,2024-01-01 01:10", "00:00:00,2024-01-01 01:00")
    assert text != LOG
    later = written(tmp_path)
    (tmp_path / "lab.csv").write_text(text)
    other = simulated(tmp_path / "other", later).manifest["trace"]
    assert other["digest"] == with_start["digest"]
    assert other["as_recorded"] != with_start["as_recorded"]


def config_and_manifest(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    curves = {"bert": {"device": "a100"}, "ncf": {"device": "t4"}, "recorded": {"device": "none"}}
    config = {
        "cluster": {"hosts": [{"device_type": "v100"}, {"device_type": "A100"}]},
        "engine": {"rescale_cost": "profile"},
        "profile": {"costs": "measured.csv"},
        **changes,
    }
    trace = {"workloads": {"bert": 2, "recorded": 1}, "generated": ["deadline_s", "events"]}
    return config, {"trace": trace, "profile": {"curves": curves}}


def test_a_device_that_was_not_measured_is_told_with_its_programs():
    config, manifest = config_and_manifest()
    (text,) = (e.text for e in assumptions.assumptions(config, manifest) if e.name == "devices")
    assert text == "speeds of another device are used: a100's for v100 (bert)"
    del manifest["trace"]["workloads"]  # as in manifests of older runs: all of the profile count
    (text,) = (e.text for e in assumptions.assumptions(config, manifest) if e.name == "devices")
    assert text == (
        "speeds of another device are used: a100's for v100 (bert); t4's for A100 and v100 (ncf)"
    )


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, {"programs", "devices", "generated"}),
        ({"cluster": {"device_type": "a100"}}, {"programs", "generated"}),
        ({"profile": {"devices": {"v100": "v100.yaml"}, "costs": "x"}}, {"programs", "generated"}),
        ({"engine": {"pace": "none"}}, {"programs", "generated"}),
        ({"engine": {"pace": "profile"}}, {"programs", "devices", "generated"}),
        ({"engine": {"rescale_cost": "zero"}}, {"programs", "devices", "changes", "generated"}),
        ({"engine": {"rescale_cost_factor": 0.0}}, {"programs", "devices", "changes", "generated"}),
    ],
)
def test_what_a_configuration_makes_sure_of_is_not_told(changes, names):
    config, manifest = config_and_manifest(**changes)
    assert {each.name for each in assumptions.assumptions(config, manifest)} == names


def test_some_unnamed_programs_are_counted_and_made_up_fields_are_named():
    texts = {each.name: each.text for each in assumptions.assumptions(*config_and_manifest())}
    assert texts["programs"].startswith("the trace names no program for 1 of 3 jobs:")
    assert texts["generated"] == "made up, not recorded in the trace: deadlines, events"


def test_what_only_some_runs_assume_is_told_with_their_number(tmp_path, lab):
    simulated(tmp_path, lab, "cluster=dgx8")
    simulated(tmp_path, lab, "cluster=dgx8", "profile=a100_stop_resume_30s")
    found = assumptions.lines(list(iter_runs(tmp_path / "runs")))
    assert [text for text in found if text.endswith("(1 of 2 runs)")] == [found[1]]
    assert found[1].startswith(FREE)
    assert len(found) == 2


def test_jobs_without_a_recorded_start_are_left_out_and_the_row_says_so(tmp_path, lab):
    text = LOG.replace("2024-01-01 00:20:00,2024-01-01 02:20:00", "2023-12-31 00:00:00,2024-01-01")
    assert text != LOG
    (tmp_path / "lab.csv").write_text(text)  # b began before it was submitted: a slip of a clock
    run = simulated(tmp_path, lab, "cluster=dgx8")
    (label,) = recorded_rows([run])
    assert label == "as recorded (2 of 3 jobs)"
    assert recorded_rows([run])[label]["jct_mean_s"] == (4200 + 5400) / 2

"""The page "From sacct to a comparison": its files, its YAML, its commands and their numbers."""

import importlib.util
import os
import random
import re
import subprocess
import sys

import pytest
import yaml

from harness.cli import main as run_harness
from harness.results.store import iter_runs
from harness.trace.__main__ import main as run_trace
from harness.trace.build import load_trace
from harness.trace.columns import ColumnsReader
from harness.trace.model.trace import TraceError
from harness.trace.transforms import TransformContext
from tests.artifact.shown import ROOT, commands_of

PAGE = ROOT / "docs" / "tutorials" / "from-sacct-to-a-comparison.md"
EXAMPLES = ROOT / "docs" / "examples"
TEXT = PAGE.read_text(encoding="utf-8")
TRACES = ("slurm_week", "kubernetes_days")
COMMANDS = [shown for shown in commands_of(PAGE) if shown.program != "make"]


def load(name, **changes):
    config = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    config["reader"] |= changes
    return load_trace(config, TransformContext(), base_dir=EXAMPLES)


def rows(runs):
    """The rows of a table on the page, from stored runs."""
    for run in runs:
        found = run.metrics
        yield (
            f"| `{run.run_id.split('-')[1]}` | {found['jobs_finished']:.0f}"
            f" | {found['jct_mean_s']:,.0f} | {found['jct_p95_s']:,.0f}"
            f" | {found['queueing_mean_s']:,.0f} | {100 * found['slot_utilization_mean']:.1f} % |\n"
        )


def test_the_files_are_what_the_script_writes():
    spec = importlib.util.spec_from_file_location("exports", EXAMPLES / "cluster_exports.py")
    exports = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(exports)
    for name, write in (
        (exports.SLURM_FILE, exports.sacct), (exports.KUBERNETES_FILE, exports.kubernetes),
    ):  # fmt: skip
        assert (EXAMPLES / name).read_text(encoding="utf-8") == write(random.Random(34))


def test_the_file_has_all_that_the_page_says():
    lines = (EXAMPLES / "slurm_week.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert f"300 jobs in {len(lines):,} rows" in TEXT
    cells = [line.split("|") for line in lines]
    jobs = [row for row in cells if "." not in row[0]]
    assert len(jobs) == 300
    states = {row[4].partition(" by ")[0] for row in jobs}
    assert {"COMPLETED", "PENDING", "RUNNING", "CANCELLED", "TIMEOUT", "FAILED"} <= states
    assert any(re.fullmatch(r"CANCELLED by \d+", row[4]) for row in jobs)
    assert any("Unknown" in row[8] for row in jobs)
    assert any(row[11] and "gres" not in row[11] for row in jobs)
    for form in (r"\d+_\d+", r"\d+\+1", r"\d+_\[\d+-9\]"):
        assert any(re.fullmatch(form, row[0]) for row in jobs)
    for written in re.findall(r"`(48\d+[_+.]\w+)`", TEXT):
        assert any(row[0] == written for row in cells), written


def test_the_yaml_on_the_page_is_that_of_the_files():
    blocks = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    for name, block in zip(TRACES, blocks, strict=True):
        assert (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8").endswith(block)


def test_the_jobs_are_those_that_ran_on_gpus():
    """Read once more, by the standard library."""
    lines = (EXAMPLES / "slurm_week.txt").read_text(encoding="utf-8").splitlines()
    header = lines[0].split("|")
    jobs = [dict(zip(header, line.split("|"), strict=True)) for line in lines[1:]]
    ran = {
        job["JobID"]: int(re.search(r"gres/gpu=(\d+)", job["AllocTRES"])[1])
        for job in jobs
        if "." not in job["JobID"] and "gres" in job["AllocTRES"] and job["State"] != "RUNNING"
    }
    trace = load("slurm_week")
    assert {job.job_id: job.requested_slots for job in trace.jobs} == ran
    first, last = trace.jobs[0], trace.jobs[-1]
    assert (first.job_id, first.arrival_s) == ("48211", 0.0)
    # The week has 167 hours: clocks went forward on Sunday.
    utc = load("slurm_week", time_zone="UTC").jobs[-1]
    assert (utc.job_id, utc.arrival_s) == (last.job_id, last.arrival_s + 3600.0)
    assert next(job for job in jobs if job["JobID"] == "48211")["Elapsed"] == "06:08:12"
    assert first.duration_s == 6 * 3600 + 8 * 60 + 12


def test_zones_of_the_pods_are_all_understood():
    trace = load("kubernetes_days")
    assert [job.arrival_s for job in trace.jobs] == sorted(job.arrival_s for job in trace.jobs)
    numbers = [int(job.job_id.rpartition("-")[2]) for job in trace.jobs]
    assert numbers == sorted(numbers)  # they were made in this order, whatever their zone
    assert {job.priority for job in trace.jobs} == {0, 10, 100}


@pytest.mark.parametrize("name", TRACES)
def test_lint_show_and_one_replay(name, tmp_path, capsys, monkeypatch):
    words = [f"docs/examples/{name}.yaml", "--cluster", "docs/examples/lab24.yaml"]
    monkeypatch.chdir(ROOT)
    for command in ("lint", "show"):
        assert run_trace([command, *words]) == 0
    assert "REFUSED" not in capsys.readouterr().out
    options = ["scheduler=fifo", "tracking=none", f"results_dir={tmp_path}", "progress=false"]
    where = ["cluster=docs/examples/lab24.yaml", f"trace=docs/examples/{name}.yaml"]
    assert run_harness([*where, *options]) == 0
    (row,) = rows(iter_runs(tmp_path))
    assert row in TEXT


def test_what_is_refused_is_told_as_shown(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load((EXAMPLES / "slurm_week.yaml").read_text(encoding="utf-8"))["reader"]
    del config["_target_"], config["keep_matching"]["AllocTRES"]
    config["path"] = str(EXAMPLES / config["path"])
    with pytest.raises(TraceError) as caught:
        ColumnsReader(**config).parse()
    (shown,) = re.findall(r"^docs/examples/slurm_week.txt:\d+: .*$", TEXT, re.MULTILINE)
    assert str(caught.value.problems[0]) == shown


def test_the_page_shows_four_commands_for_each_file():
    programs = [shown.program for shown in COMMANDS]
    assert programs == 2 * ["harness.trace", "harness.trace", "harness", "reports"]


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1], ids=TRACES)
def test_every_command_of_the_page_runs(number, tmp_path):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for shown in COMMANDS[4 * number : 4 * number + 4]:
        done = subprocess.run(
            [sys.executable, "-m", shown.program, *shown.words],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, (shown.text, done.stderr)
    (runs,) = tmp_path.glob("results/*/runs")
    found = list(rows(iter_runs(runs)))
    assert len(found) == 3
    assert all(row in TEXT for row in found)
    assert (runs.parent / "site" / "index.html").is_file()
    assert len(list(runs.parent.glob("site/figures/*.svg"))) >= 2


def test_jobs_with_two_types_of_gpu_are_left_out_by_the_rule_of_the_page(tmp_path):
    (slots,) = re.findall(r"typed GPUs only needs `'(.+?)'`", TEXT)
    (rule,) = re.findall(r"`(drop_matching: .+?)`", TEXT)
    tres = ["gres/gpu:a100=2,mem=1G", "gres/gpu:a100=2,gres/gpu:v100=1", "mem=1G,gres/gpu:v100=4"]
    jobs = tmp_path / "typed.csv"
    jobs.write_text(
        "at|ran|AllocTRES\n" + "".join(f"{n}|5|{cell}\n" for n, cell in enumerate(tres))
    )
    options = {
        "columns": {"arrival": "at", "duration": "ran", "slots": "AllocTRES"},
        "patterns": {"slots": slots},
        "delimiter": "|",
    }
    read = [
        ColumnsReader(str(jobs), **options, **more).read() for more in ({}, yaml.safe_load(rule))
    ]
    assert [[job.requested_slots for job in trace.jobs] for trace in read] == [[2, 2, 4], [2, 4]]

"""What the closed division takes and refuses, on runs of a shipped study; versions never mix."""

import json
import shutil
from pathlib import Path

import pytest

from harness import compare, validate
from harness.configuration import benchmark_version as benchmark
from harness.configuration.benchmark_version import (
    BENCHMARK_VERSION,
    FIRST_VERSION,
    KEY,
    one_version,
    version_of,
)
from harness.configuration.study import load_study
from harness.results.store import load_run, run_paths
from harness.run.execute import execute
from harness.run.plan import plan
from harness.sweep import divisions
from harness.sweep.runner import read_words
from reports.__main__ import main as draw

STUDY = "easyscale_fig15"
TRACES = ("easyscale", "easyscale_serving")


def run(folder: Path, trace: str, *words: str) -> Path:
    """A point of the study under a scheduler that it does not have."""
    asked = [*load_study(STUDY).base, f"trace={trace}", "scheduler=fifo", f"results_dir={folder}"]
    return execute(plan(read_words([*asked, "sweep=mine", *words]), check_workloads=False))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    for trace in TRACES:
        run(folder, trace)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def submit(folder, capsys):
    """Checks the folder; the exit code and all that was said."""

    def call(*words, division="closed", study=STUDY):
        capsys.readouterr()
        named = ["--study", study] if study else []
        code = validate.main([str(folder), "--division", division, *named, *words])
        said = capsys.readouterr()
        return code, said.out + said.err

    return call


def change(path, **values):
    file = path / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_scheduler_of_ones_own_is_accepted(submit):
    code, said = submit()
    assert code == 0, said
    assert "accepted for the closed division" in said


def test_the_study_must_be_named_or_known(submit):
    code, said = submit(study=None)
    assert code == 2
    assert "2 runs of mine: are not of a shipped study; name the study with --study" in said


@pytest.mark.long
def test_a_missing_point_is_refused(folder, submit):
    shutil.rmtree(next(run_paths(folder)))
    code, said = submit()
    assert code == 2
    assert f"1 point of {STUDY} has no run" in said
    assert "refused for the closed division" in said


@pytest.mark.long
def test_other_work_is_refused_and_says_what_differs(folder, submit):
    asked = {
        "cluster.": ["cluster=t4x64", "profile=t4_elasticflow"],
        "placement._target_": ["placement=spread"],
        "scaling": ["scaling=weak"],
        "seed": ["seed=7"],
    }
    others = {key: run(folder, TRACES[0], *words).name for key, words in asked.items()}
    code, said = submit()
    assert code == 2
    for key, name in others.items():
        (line,) = (line for line in said.splitlines() if line.startswith(name))
        assert f"is no point of {STUDY}" in line
        assert key in line
        assert "open division" in line
    assert submit(division="open")[0] == 0


@pytest.mark.long
def test_other_jobs_behind_the_same_configuration_are_refused(folder, submit):
    path = next(run_paths(folder))
    change(path, trace=load_run(path).manifest["trace"] | {"digest": "f" * 64})
    code, said = submit()
    assert code == 2
    assert f"{path.name}: its trace has the digest ffffffffffff" in said


@pytest.mark.long
def test_criteria_must_be_those_of_the_study(folder, submit):
    for path in run_paths(folder):
        change(path, sweep=STUDY, criteria={"easyscale-fig15/1": "0" * 64})
    code, said = submit(study=None)
    assert code == 2
    assert "was made under other criteria of the study" in said


def test_an_unsound_run_is_in_no_division(folder, submit):
    (next(run_paths(folder)) / "jobs.csv.gz").unlink()
    for division in ("closed", "open"):
        code, said = submit(division=division)
        assert code == 2
        assert "jobs.csv.gz is missing" in said
        assert f"refused for the {division} division" in said


@pytest.mark.long
def test_a_scripted_scheduler_is_work_of_the_study(tmp_path, capsys):
    """Only the backend is free then: without the script there would be other changes of size."""
    (tmp_path / "study.yaml").write_text(
        "description: one change\nbase: [trace=five_jobs, cluster=dgx8, scheduler=scripted]\n"
    )
    study = load_study(str(tmp_path / "study.yaml"))
    words = [*study.base, "engine=simulated", f"results_dir={tmp_path}"]
    stored = load_run(execute(plan(read_words([*words, "scheduler=fifo"]), check_workloads=False)))
    (reason,) = divisions.closed_problems([stored], study)
    assert "scheduler._target_ is" in str(reason)
    assert "systems.schedulers.scripted" in str(reason)


def test_every_run_keeps_the_version_and_older_ones_are_of_the_first(made):
    for path in run_paths(made):
        assert load_run(path).manifest[KEY] == BENCHMARK_VERSION
    assert version_of({}) == FIRST_VERSION
    assert one_version([{}, {KEY: FIRST_VERSION}], "runs") == FIRST_VERSION
    assert one_version([], "runs") == BENCHMARK_VERSION


def test_versions_are_never_compared(folder, submit, capsys):
    new = BENCHMARK_VERSION + 1
    first, second = run_paths(folder)
    change(second, **{KEY: new})
    text = f"version {BENCHMARK_VERSION} (1 run), version {new} (1 run); such results are never"
    for division in ("closed", "open"):
        code, said = submit(division=division)
        assert code == 2
        assert text in said
    assert compare.main([str(first), str(second)]) == 2
    assert text in capsys.readouterr().err
    assert draw(["--results", str(folder), "--out", str(folder / "site")]) == 2
    assert text in capsys.readouterr().err
    change(first, **{KEY: new})
    assert f"are of version {new} of the benchmark" in submit()[1]


def test_another_version_makes_other_runs(monkeypatch):
    """Else a sweep would take the runs of an earlier version for finished."""
    from harness.configuration import schema as config

    words = ["trace=five_jobs", "cluster=dgx8", "engine=simulated"]
    before = plan(read_words(words), check_workloads=False).config_hash
    monkeypatch.setattr(config, "BENCHMARK_VERSION", benchmark.FIRST_VERSION + 1)
    assert plan(read_words(words), check_workloads=False).config_hash != before

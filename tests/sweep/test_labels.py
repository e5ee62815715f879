"""The label of a sweep: the one that the command gives, on every run and on the folder."""

import json

import pytest

from harness.results.store import iter_runs
from tests.config.commands import assert_refused

TWO = ("trace=five_jobs", "cluster=dgx8", "scheduler=fifo,edf", "-m")


def test_a_sweep_keeps_the_label_it_is_given(command):
    answer = command(*TWO, "sweep='my label'")
    assert answer.code == 0, answer.err
    assert {run.manifest["sweep"] for run in iter_runs(command.results)} == {"my label"}
    (path,) = command.results.parent.glob("sweeps/*/points.json")
    assert path.parent.name == "my label"
    document = json.loads(path.read_text())
    assert document["sweep"] == "my label"
    assert [point["status"] for point in document["points"]] == ["done", "done"]


@pytest.mark.parametrize("label", [[], ["sweep=null"]], ids=["none", "null"])
def test_a_sweep_without_a_label_gets_one_of_its_own(command, label):
    answer = command(*TWO, *label, "--cfg", "job")
    assert answer.code == 0, answer.err
    assert answer.out.count("\nsweep: sweep-") == 2


@pytest.mark.parametrize(
    ("word", "fact"),
    [
        ("sweep=../../elsewhere", "sweep: is '../../elsewhere'; use letters, digits, dash, dot"),
        ("sweep=.hidden", "sweep: is '.hidden'"),
        ("sweep=''", "sweep: is ''"),
        ("sweep=a,b", "sweep: has several values; give the sweep one label"),
    ],
)
def test_what_names_no_folder_is_refused(command, word, fact):
    assert_refused(command(*TWO, word), fact)


def test_a_study_has_its_own_label(command, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("description: one\nbase: [trace=five_jobs, cluster=dgx8]\n")
    fact = "sweep: is 'other', but a study sets its own label; leave sweep out"
    assert_refused(command(f"study={path}", "sweep=other", "dry=true"), fact)

"""Paths on the command line mean what they are, without quotes inside the shell's quotes."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.configuration.compose import parse_overrides, quote
from harness.configuration.path_words import quoted, unquoted
from harness.configuration.study import product
from harness.files.safe_names import run_name
from harness.run.execute import config_yaml
from harness.run.plan import plan
from harness.sweep.runner import read_words
from tests.config.commands import assert_refused, command  # noqa: F401

NAMES = (
    "Jörgs Läufe", "中文", "ジョブ 1", "a (1)", "$HOME", "${oc.env:HOME}", "it's", 'say "x"', "a,b",
    "a[1]", "{a}", "a&b;c", "a=b", "#1", "x~y^z!", "back\\slash", "a:b", "100%", "<a>|b", "a  b",
)  # fmt: skip
TRACE = """\
name: own
source: a test
licence: none
reader:
  _target_: harness.trace.columns.ColumnsReader
  path: jobs.csv
  columns: {arrival: at, slots: gpus, duration: ran}
"""


@pytest.fixture(params=NAMES)
def own_trace(request, tmp_path):
    """A trace of the user's own in a folder, and with a name, of such letters."""
    folder = tmp_path / request.param
    folder.mkdir()
    (folder / "jobs.csv").write_text("at,gpus,ran\n0,1,50\n10,2,60\n")
    path = folder / f"{request.param}.yaml"
    path.write_text(TRACE)
    return path


def test_a_trace_of_any_path_is_planned(own_trace):
    folder = own_trace.parent
    words = [f"trace={own_trace}", "cluster=cpu4", "scheduler=fifo", f"results_dir={folder}"]
    planned = plan(read_words(words))
    assert len(planned.trace.jobs) == 2
    assert planned.config.trace["reader"]["path"] == str(folder / "jobs.csv")
    assert planned.config.results_dir == str(folder)
    again = plan(read_words([], yaml.safe_load(config_yaml(planned.config))))
    assert again.run_id == planned.run_id


def test_a_trace_of_any_path_in_a_list(own_trace):
    found = parse_overrides([f"trace=itp195,{own_trace}"], sweeping=True)
    if "," in own_trace.name:  # a comma parts a list: such a file needs quotes there
        found = parse_overrides([f"trace=itp195,{quote(str(own_trace))}"], sweeping=True)
    assert found.problems == []
    points = product(found.sweeps, quoted=True)
    assert [point.axes["trace"] for point in points] == ["itp195", own_trace.stem]
    assert parse_overrides(points[1].overrides).choices == {"trace": str(own_trace)}


def test_a_single_file_with_a_comma_is_no_list(tmp_path):
    path = tmp_path / "a,b.yaml"
    path.write_text(TRACE)
    for sweeping in (False, True):
        assert parse_overrides([f"trace={path}"], sweeping).choices == {"trace": str(path)}


@pytest.mark.parametrize("name", ["Läufe/nicht da.yaml", "中文.yaml", "a (1).yaml"])
def test_a_file_that_is_not_there_is_told_as_that(command, name):  # noqa: F811
    assert_refused(command(f"trace={name}"), f"trace: there is no file {name}; correct the path")
    answer = command(f"trace={name},itp195", "-m")
    assert_refused(answer, f"trace: there is no file {name}; correct the path")


def test_texts_and_paths_of_other_keys(tmp_path):
    data = tmp_path / "größe (2).csv"
    data.write_text("at,gpus,ran\n0,1,50\n")
    found = parse_overrides(
        [f"trace.reader.path={data}", "name=Läufe (neu)", "sweep=größer=besser"]
    )
    assert found.problems == []
    assert found.values == [
        f"++trace.reader.path='{data}'", "++name='Läufe (neu)'", "++sweep='größer=besser'",
    ]  # fmt: skip


def test_what_hydra_reads_otherwise_stays_what_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("1", "fifo", "null", "[1,2]"):
        Path(name).touch()
    words = ["seed=1", "scheduler=fifo", "max_wall_s=null"]
    found = parse_overrides(words)
    assert found.choices == {"scheduler": "fifo"}
    assert found.values == ["++seed=1", "++max_wall_s=null"]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=30))
def test_quotes_are_taken_away_again(text):
    assert unquoted(quoted(text)) == text


@pytest.mark.parametrize("trace", [*NAMES, ".hidden", "x" * 250, "中" * 80])
def test_names_of_runs_are_names_of_folders(trace):
    choices = {"trace": trace, "scheduler": "s" * 90, "backend": "stop_free", "engine": "live"}
    name = run_name(choices, "0123456789abcdef")
    assert len(f".partial-{name}-4194304-{'h' * 64}".encode()) <= 255
    assert Path(name).name == name
    assert not set(name) & set("'\"\\$*?[]:<>|&;")
    assert not name.startswith(".")
    assert name.endswith("-0123456789")


def test_ordinary_names_of_runs_stay():
    choices = {"trace": "itp195", "scheduler": "fifo", "backend": "stop_free", "engine": "live"}
    assert run_name(choices, "0123456789abcdef") == "itp195-fifo-stop_free-live-0123456789"

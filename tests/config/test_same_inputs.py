"""A run's identity: what its trace and profile hold, and not where they lie."""

import shutil

import pytest

from harness.configuration.compose import CONFIG_DIR
from harness.results.store import iter_runs

TRACE = """\
name: Lab week (März)
source: made for a test
licence: none
reader:
  _target_: harness.trace.columns.ColumnsReader
  path: jobs.csv
  columns: {arrival: at, slots: gpus, duration: seconds}
transforms:
  - {_target_: harness.trace.transforms.ReadEvents, path: data/events.csv}
"""
PROFILE = """\
name: lab speeds
provenance: {hardware: one, versions: none, source: mine, licence: none, trials: 5, spread: none,
  rescale_costs: mine, measured_here: false}
throughput:
  toy: {device: x, file: toy.csv, unit: samples_per_s, spread: {32: {1: 0.1, 2: 0.1}}}
rescale_costs:
  - {preparation_s: 0, pause_s: 5, trials: 5, spread_s: 1}
"""
WORDS = ("cluster=cpu2", "scheduler=uniform", "engine=simulated")


def write(folder):
    (folder / "data").mkdir(parents=True)
    (folder / "jobs.csv").write_text("at,gpus,seconds\n0,1,60\n5,1,60\n9,1,60\n")
    (folder / "data" / "events.csv").write_text(
        "time_s,event,slots,job_id\n10,slots_down,0,\n20,slots_up,0,\n"
    )
    (folder / "toy.csv").write_text("global_batch_size,1,2\n32,100,180\n")
    (folder / "lab.yaml").write_text(TRACE)
    (folder / "speeds.yaml").write_text(PROFILE)
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "mine")


def run_id(command, folder, *words, trace="lab.yaml"):
    """The id that a run would have."""
    own = (f"trace={folder / trace}", f"profile={folder / 'speeds.yaml'}")
    answer = command(*own, *WORDS, *words, "dry=true")
    assert answer.code == 0, answer.err
    return answer.out.split(": ")[1]


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_copy_of_the_folder_gives_the_same_run(command, folder, tmp_path):
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(folder, copy)
    (copy / "lab.yaml").rename(copy / "other.yaml")
    first = run_id(command, folder)
    assert first.startswith("Lab week _März_-uniform-stop_resume-simulated-")
    assert run_id(command, copy, trace="other.yaml") == first


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("jobs.csv", "9,1,60", "9,1,61"),
        ("data/events.csv", "20,", "21,"),
        ("toy.csv", "180", "181"),
        ("speeds.yaml", "pause_s: 5", "pause_s: 6"),
        ("speeds.yaml", "1: 0.1", "1: 0.2"),
        ("speeds.yaml", "spread_s: 1", "spread_s: 2"),
        ("speeds.yaml", "trials: 5, spread: none", "trials: 7, spread: none"),
        ("speeds.yaml", "trials: 5, spread: none", "speeds_under: x, trials: 5, spread: none"),
    ],
)
def test_another_content_makes_another_run(command, folder, file, old, new):
    first = run_id(command, folder)
    edit(folder / file, old, new)
    assert run_id(command, folder) != first


@pytest.mark.long
def test_an_edited_input_is_run_again_and_never_found_stored(command, folder):
    own = (f"trace={folder / 'lab.yaml'}", f"profile={folder / 'speeds.yaml'}", *WORDS)
    words = (*own, "seed=0,1", "-m", "sweep=lab")
    assert command(*words).code == 0
    assert "2 points, 0 to run" in command(*words, "dry=true").out
    edit(folder / "jobs.csv", "9,1,60", "9,1,600")
    assert "2 points, 2 to run" in command(*words, "dry=true").out
    answer = command(*words)
    assert answer.code == 0, answer.err
    assert answer.out.count(" done ") == 2
    makespans = {run.run_id: run.metrics["makespan_s"] for run in iter_runs(command.results)}
    assert len(makespans) == 4
    assert len(set(makespans.values())) == 2


def test_a_shipped_trace_by_its_path_is_the_shipped_one(command):
    def shown(trace):
        answer = command(f"trace={trace}", "cluster=dgx8", "dry=true")
        assert answer.code == 0, answer.err
        return answer.out

    assert shown(CONFIG_DIR / "trace" / "five_jobs.yaml") == shown("five_jobs")

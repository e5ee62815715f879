"""Sweeps: points in processes of their own, finished ones skipped, failures reported."""

import json

import pytest

from harness.configuration.study import product
from harness.sweep import runner as sweep
from tests.config.commands import assert_refused

QUICK = ("trace=five_jobs", "cluster=dgx8")


def runs(command):
    return sorted(p.name for p in command.results.iterdir() if not p.name.startswith("."))


def points_file(command, label=None):
    folder = command.results.parent / "sweeps"
    (path,) = [folder / label] if label else list(folder.iterdir())
    return json.loads((path / "points.json").read_text())


def test_lists_are_swept_summed_up_and_finished_points_skipped(command, tmp_path):
    answer = command(*QUICK, "scheduler=fifo,uniform", "seed=range(0,2)", "-m")
    assert answer.code == 0, answer.err
    assert len(runs(command)) == 4
    assert answer.out.count(" done ") == 4
    assert "JCT mean s" in answer.out
    assert "has the shortest mean JCT" in answer.out.rpartition("Points and logs")[2]
    document = points_file(command)
    assert [point["status"] for point in document["points"]] == ["done"] * 4
    assert sorted(point["run_id"] for point in document["points"]) == runs(command)

    # A point equals the same run alone.
    command(*QUICK, "scheduler=fifo", "seed=1", f"results_dir={tmp_path / 'alone'}")
    (alone,) = [p.name for p in (tmp_path / "alone").iterdir()]
    assert alone in runs(command)

    before = {p: (command.results / p).stat().st_ctime_ns for p in runs(command)}
    answer = command(*QUICK, "scheduler=fifo", "seed=0,1,2", "-m")
    assert answer.code == 0
    assert answer.out.count(" stored ") == 2
    assert answer.out.count(" done ") == 1
    after = {p: (command.results / p).stat().st_ctime_ns for p in runs(command)}
    assert before.items() <= after.items()
    assert len(after) == 5


def test_a_failed_point_fails_the_sweep_and_shows_its_log(command):
    command(*QUICK, "scheduler=fifo")
    answer = command(*QUICK, "scheduler=fifo,uniform", "max_wall_s=0.0001", "-m")
    assert answer.code == 1
    assert answer.out.count(" stored ") == 1
    assert answer.out.count("failed (124)") == 2  # in the table, and above its log
    assert "    Stopped (max_wall_s is over)" in answer.out
    assert len(runs(command)) == 1


def test_points_that_are_one_run_are_refused(command):
    answer = command(*QUICK, "name=a,b", "-m")
    assert_refused(answer, "points of run five_jobs-", "are the same run")


def test_nothing_starts_when_any_point_is_wrong(command):
    answer = command(*QUICK, "scheduler=fifo,tiresias", "backend=static", "-m")
    assert_refused(answer, "[scheduler=tiresias] (1 of 2 points) scheduler=tiresias")
    assert not command.results.exists()
    answer = command(*QUICK, "scheduler=fifo,nobody", "sed=1", "-m")
    assert_refused(answer, "unknown option 'nobody'", "sed: unknown key")


def test_glob_sweeps_the_options_of_a_group(command):
    answer = command(*QUICK, "scheduler=glob(edf*)", "-m", "dry=true")
    assert answer.code == 0
    assert "scheduler=edf " in answer.out
    assert "scheduler=edf_gang " in answer.out
    assert_refused(command(*QUICK, "scheduler=glob(x*)", "-m"), "glob matches nothing")


def write_study(folder):
    path = folder / "mine.yaml"
    path.write_text(
        "description: two schedulers\nbase: [trace=five_jobs, cluster=dgx8]\n"
        "grids:\n  - scheduler: [fifo, uniform]\nrepetitions: 2\nfigures: [timeline]\n"
    )
    return f"study={path}"


def test_a_study_says_what_it_would_run(command, tmp_path):
    answer = command(write_study(tmp_path), "dry=true")
    assert answer.code == 0
    assert "4 points, 4 to run, about " in answer.out
    assert not command.results.exists()


def test_a_study_can_be_narrowed_and_changed(command, tmp_path):
    answer = command(write_study(tmp_path), "scheduler=fifo", "seed=5", "dry=true")
    assert "2 points, 2 to run" in answer.out
    answer = command(write_study(tmp_path), "scheduler=edf", "dry=true")
    assert_refused(answer, "no point of the study has scheduler=edf")


def test_a_study_is_a_whole_sweep_and_mirrored_by_its_own_process(command, tmp_path):
    mlflow = tmp_path / "mlflow"
    words = [f"tracking.uri=sqlite:///{mlflow}/a.db", f"tracking.artifacts={mlflow}/files"]
    answer = command(write_study(tmp_path), *words, tracked=True)
    assert answer.code == 0, answer.err
    assert len(runs(command)) == 4
    assert "python -m reports study=mine" in answer.out
    assert points_file(command, "mine")["sweep"] == "mine"
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{mlflow}/a.db")
    (experiment,) = [e for e in client.search_experiments() if e.name == "elastrace"]
    found = client.search_runs([experiment.experiment_id])
    assert sorted(run.data.tags["run_id"] for run in found) == runs(command)
    assert {run.data.tags["sweep"] for run in found} == {"mine"}


class Engine:
    def __init__(self, exclusive):
        self.exclusive = exclusive


class Planned:
    def __init__(self, exclusive):
        self.engine = Engine(exclusive)


def entry(exclusive, estimate_s):
    return sweep.Entry(sweep.Point((), {}), [], Planned(exclusive), estimate_s)


@pytest.mark.parametrize(
    ("exclusive", "running", "has_room"),
    [
        (True, [], True),
        (True, [False], False),
        (True, [True], False),
        (False, [True], False),
        (False, [False], True),
        (False, [False, False], False),
    ],
)
def test_points_that_occupy_the_machine_run_alone(exclusive, running, has_room):
    others = [entry(each, 1.0) for each in running]
    assert sweep.has_room(entry(exclusive, 1.0), others, 2) is has_room


def test_remaining_time_counts_points_side_by_side_and_alone():
    entries = [entry(False, 10.0) for _ in range(4)] + [entry(True, 7.0), entry(True, 5.0)]
    assert sweep.remaining_s(entries, 2) == pytest.approx(20.0 + 12.0)
    assert sweep.remaining_s(entries, 100) == pytest.approx(10.0 + 12.0)


def test_editing_a_file_during_a_sweep_does_not_change_its_points(command, tmp_path):
    path = tmp_path / "two.yaml"
    text = (
        "_target_: harness.cluster.uniform_cluster\nname: two\nnum_hosts: 1\n"
        "devices_per_host: 8\ndevice_type: a100\n"
    )
    path.write_text(text)
    words = ["trace=five_jobs", f"cluster={path}", "tracking=none", "progress=false"]
    words.append(f"results_dir={command.results}")
    planned = sweep.Sweep("edited", words, product({"seed": (0, 1)}))
    entries = sweep.plan_sweep(planned)
    path.write_text(text.replace("8", "4"))
    assert sweep.run_sweep(planned, entries) == 0
    assert runs(command) == sorted(entry.planned.run_id for entry in entries)

"""Measuring: the script of a run, what its records say, and the file that comes of it."""

import dataclasses
from itertools import pairwise, permutations

import pytest

from harness.contracts.change import ChangeKind
from harness.contracts.process import Warmth
from harness.errors import UserError
from harness.metrics.step_periods import WARM_UP_STEPS, stretches
from harness.profile import main, what_failed
from harness.profiles import load_profile
from harness.profiles.costs import RescaleCost
from harness.profiles.evaluate import ProfileTrial, evaluate, median_cost
from harness.profiles.measurement import Measurement
from harness.profiles.write import profile_text
from harness.results.records import ChangeRecord, JobRecord, RunRecords, StepRecord
from harness.results.store import RunStore, load_run
from harness.run.execute import execute
from harness.run.plan import plan
from harness.sweep.measure_profile import points_of, tour
from harness.sweep.runner import Entry, read_words

MANIFEST = {
    "hardware": {"cpu": "a CPU", "cores": 2, "memory_bytes": 2**33, "accelerators": []},
    "packages": {"torch": "2.13.0", "numpy": "2.4.6"},
    "python": "3.11.7",
    "created": "2026-01-02T03:04:05+00:00",
    "git_commit": "abc",
}


def measurement(folder, **changed):
    options = {
        "name": "mine",
        "folder": folder,
        "pool": "toy",
        "workloads": ("toy",),
        "batches": (32,),
        "sizes": (1, 2, 4),
        "cluster": "cpu4",
        "backends": ("stop_resume",),
        "warmths": (),
        "placements": (),
        "trials": 3,
        "steps": 6,
    }
    return Measurement(**{**options, **changed})


@pytest.mark.parametrize("sizes", [(1,), (1, 2), (4, 1, 2), (1, 2, 3, 5)])
def test_tour_takes_every_direct_way_once_and_comes_home(sizes):
    way = tour(sizes)
    assert way[0] == way[-1] == sizes[0]
    assert sorted(pairwise(way)) == sorted(permutations(sizes, 2))


@pytest.mark.parametrize("backend", ["stop_resume", "virtual_thread"])
def test_a_run_makes_every_change(tmp_path, backend):
    """The points run in the simulated engine too, which shows that their scripts are whole."""
    planned = points_of(measurement(tmp_path / "traces", backends=(backend,)))
    assert len(planned.points) == 3
    for number, point in enumerate(planned.points):
        left_out = ("engine=live", "engine.fast_forward=false", "profile=recorded")
        words = [word for word in planned.common if word not in left_out]
        words += [*point.overrides, "engine=simulated", f"profile={_one_second_profile(tmp_path)}"]
        words.append(f"results_dir={tmp_path}/runs")
        run = load_run(execute(plan(read_words(words))))
        made = {
            (change.kind, len(change.from_slots), len(change.to_slots))
            for change in run.records.changes
            if change.outcome == "done"
        }
        sizes = (1, 2, 4)
        expected = {("rescale", a, b) for a, b in permutations(sizes, 2)}
        expected |= {("resume", 0, size) for size in sizes}
        expected |= {("start", 0, sizes[number])}
        assert expected <= made
        assert run.records.jobs[0].state == "finished"


def _one_second_profile(folder):
    path = folder / "second.yaml"
    keys = ["hardware", "versions", "source", "licence", "trials", "spread", "rescale_costs"]
    lines = [f"  {key}: made up" for key in keys]
    path.write_text(
        "name: second\nprovenance:\n  measured_here: false\n"
        + "\n".join(lines)
        + "\nthroughput:\n  toy: {device: none, samples_per_s: {32: {1: 32.0, 4: 64.0}}}\n"
        + "rescale_costs: [{preparation_s: 0, pause_s: 1.0}]\n"
    )
    return path


def made_up_records(step_s, stop_s, first_s, finish_s):
    """A job that starts on 1 slot (4 s to its first step), goes to 2, and finishes."""
    records = RunRecords()
    now, number = 4.0, 0
    for workers in (1, 2):
        if workers == 2:
            requested = now - 0.4 * step_s[1]
            now += stop_s
        for index in range(10):
            duration = first_s if index == 0 else step_s[workers]
            number += 1
            records.steps.append(StepRecord("job", number, workers, 32, now, duration, "0x0p+0"))
            now += duration
            if index == 0 and workers == 1:
                records.changes.append(
                    ChangeRecord(0, "job", "start", 0.0, now, "done", (), (0,), None, None)
                )
            if index == 0 and workers == 2:
                phases = {"save": 0.1, "first_step": first_s}
                records.changes.append(
                    ChangeRecord(
                        1,
                        "job",
                        "rescale",
                        requested,
                        now,
                        "done",
                        (0,),
                        (0, 1),
                        stop_s,
                        3.0,
                        phases,
                    )
                )
    records.facts["idle_skipped_s"] = 100.0
    job = JobRecord(
        "job",
        "toy",
        "",
        0.0,
        1,
        32,
        640.0,
        None,
        "none",
        "finished",
        0.0,
        now + 100.0 + finish_s,
        640.0,
        1.0,
        1.0,
        1,
        0,
        None,
        None,
    )
    records.jobs.append(job)
    return records


def test_speeds_and_costs_of_made_up_records():
    trial = evaluate(made_up_records({1: 0.5, 2: 0.3}, stop_s=3.0, first_s=0.9, finish_s=0.7))
    assert trial.step_s == pytest.approx({1: 0.5, 2: 0.3})
    (start,) = trial.costs[ChangeKind.START, 0, 1]
    assert start.pause_s == pytest.approx(4.0 + 0.9 - 0.5)  # a usual step of it was progress
    (rescale,) = trial.costs[ChangeKind.RESCALE, 1, 2]
    assert rescale.preparation_s == pytest.approx(0.4 * 0.5)
    assert rescale.pause_s == pytest.approx(3.0 + 0.9 - 0.3)
    (end,) = trial.costs[ChangeKind.STOP, 2, 0]
    assert end.pause_s == pytest.approx(0.7)


def test_stretches_end_at_pauses_and_at_other_sizes():
    records = made_up_records({1: 0.5, 2: 0.5}, stop_s=3.0, first_s=0.5, finish_s=0.0)
    same_size = [dataclasses.replace(step, num_workers=1) for step in records.steps]
    assert [len(part) for part in stretches(same_size)] == [10, 10]
    at_once = made_up_records({1: 0.5, 2: 0.5}, stop_s=0.0, first_s=0.5, finish_s=0.0)
    assert [len(part) for part in stretches(at_once.steps)] == [10, 10]
    assert WARM_UP_STEPS < 10


def test_median_cost_takes_every_part_for_itself():
    costs = [
        RescaleCost(1.0, 9.0, {"save": 1.0}),
        RescaleCost(2.0, 7.0, {"save": 5.0, "load": 2.0}),
        RescaleCost(9.0, 8.0, {"save": 3.0}),
    ]
    assert median_cost(costs) == RescaleCost(2.0, 8.0, {"save": 3.0, "load": 2.0})


def test_measured_file_reads_back_with_provenance(tmp_path):
    trials = [
        evaluate(made_up_records({1: 0.5 * factor, 2: 0.25}, 3.0, 0.5, 0.0))
        for factor in (1.0, 1.1, 0.8)
    ]
    path = tmp_path / "mine.yaml"
    path.write_text(
        profile_text(
            measurement(tmp_path), {("stop_resume", None, "toy", 32): trials}, MANIFEST, "cpu"
        )
    )
    profile = load_profile(path)
    curve = profile.throughput("toy", 32)
    assert curve.samples_per_s(1) == pytest.approx(64.0)  # the median trial
    assert curve.samples_per_s(2) == pytest.approx(128.0)
    assert profile.provenance["measured_here"] is True
    assert "a CPU, 2 cores, 8 GiB" in profile.provenance["hardware"]
    spread = profile.provenance["curves"]["toy"]["spread"]
    assert spread[32][1] == pytest.approx((1 / 0.8 - 1 / 1.1) / 1.0, abs=1e-3)
    measured = profile.rescale_cost("stop_resume", "toy", ChangeKind.RESCALE, 1, 2)
    assert measured.pause_s == pytest.approx(3.25, abs=1e-3)
    unmeasured = profile.rescale_cost("stop_resume", "toy", ChangeKind.MIGRATE, 2, 2)
    start = profile.rescale_cost("stop_resume", "toy", ChangeKind.START, 0, 1)
    assert unmeasured.pause_s == max(start.pause_s, measured.pause_s)


def test_a_size_no_run_reached_is_left_out(tmp_path):
    trials = [ProfileTrial({1: 0.5}), ProfileTrial({1: 0.5, 2: 0.3})]
    text = profile_text(
        measurement(tmp_path), {("static", None, "toy", 32): trials}, MANIFEST, "cpu"
    )
    assert "throughput:\nrescale_costs:" in text  # static is not the backend that gives speeds


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sizes", "1,two"], "--sizes: is '1,two'; give whole numbers with commas"),
        (["--sizes", "2,2"], "--sizes: is 2 2; give different numbers from 1 up"),
        (["--batches", "0"], "--batches: is 0; give different numbers from 1 up"),
        (["--sizes", "1,64", "--batches", "32"], "every worker needs at least 1 sample"),
        (["--trials", "1"], "--trials: is 1 for 2 sizes; give at least one for each size"),
        (["--steps", "2"], "--steps: is 2; give at least 5"),
        (["--steps", "40,ncf=4"], "--steps: is 4; give at least 5"),
        (["--steps", "40,50"], "--steps: is '40,50'; give one number, and others by workload"),
        (["--steps", "ncf=many"], "--steps: is 'ncf=many'"),
        (["--steps", "40,lenet=50"], "--steps: not in pool tiny: lenet"),
        (["--workloads", "lenet"], "lenet"),
        (["--backends", "magic"], "magic"),
        (["--warmths", "hot"], "--warmths: is 'hot'; known: cold, preimported, spare"),
        (["--placements", "nowhere", "--workloads", "bert", "--sizes", "1,2"], "nowhere"),
        (["--cluster", "moon"], "moon"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(
    tmp_path, monkeypatch, capsys, words, message
):
    monkeypatch.chdir(tmp_path)
    assert main(["measure", "mine.yaml", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_all_wrong_options_are_told_at_once(tmp_path):
    with pytest.raises(UserError) as caught:
        measurement(tmp_path, sizes=(0,), trials=0, steps=1)
    assert len(caught.value.problems) == 3


def test_steps_may_differ_by_workload(tmp_path):
    two = ("bert", "vgg16")
    short, longer = (
        points_of(measurement(tmp_path, pool="tiny", workloads=two, steps_of=of)).points
        for of in ({}, {"vgg16": 60})
    )
    for one, other in zip(short, longer, strict=True):
        assert (one.overrides == other.overrides) == (one.axes["workload"] == "bert")


def test_warmths_and_placements_are_measured_apart(tmp_path):
    planned = points_of(
        measurement(
            tmp_path,
            sizes=(1, 2),
            trials=2,
            backends=("stop_resume", "torchrun"),
            warmths=(Warmth.COLD, Warmth.SPARE),
            placements=("consolidated", "spread"),
        )
    )
    found = [
        (p.axes["backend"], p.axes["warmth"], p.axes["placement"], p.axes["trial"])
        for p in planned.points
    ]
    assert len(set(found)) == len(found) == 2 * (2 * 2 + 1 * 2)  # torchrun can only start cold
    for point in planned.points:
        assert f"backend.start={point.axes['warmth']}" in point.overrides
        assert f"placement={point.axes['placement']}" in point.overrides


def test_what_was_measured_apart_is_written_apart(tmp_path):
    near, far = (
        ProfileTrial({1: 0.5, 2: 0.25}),
        ProfileTrial({1: 0.5, 2: 0.4}, across=frozenset({2})),
    )
    cost = {(ChangeKind.RESCALE, 1, 2): [RescaleCost(0.0, 3.0, {})]}
    warm = {(ChangeKind.RESCALE, 1, 2): [RescaleCost(0.0, 1.0, {})]}
    near.costs, far.costs = cost, warm
    trials = {
        ("stop_resume", "cold", "toy", 32): [near],
        ("stop_resume", "spare", "toy", 32): [far],
    }
    path = tmp_path / "mine.yaml"
    path.write_text(profile_text(measurement(tmp_path), trials, MANIFEST, "cpu"))
    profile = load_profile(path)
    assert profile.throughput("toy", 32).samples_per_s(2) == pytest.approx(32 / 0.25)
    assert profile.across_hosts("toy").curve(32).samples_per_s(2) == pytest.approx(32 / 0.4)
    for warmth, pause_s in ((Warmth.COLD, 3.0), (Warmth.SPARE, 1.0)):
        found = profile.rescale_cost("stop_resume", "toy", ChangeKind.RESCALE, 1, 2, warmth)
        assert found.pause_s == pause_s


@pytest.mark.long
def test_measuring_really_trains_and_writes_a_profile(tmp_path, monkeypatch, capsys):
    """Real workers: every size and every change of one job, from the command to the file."""
    monkeypatch.chdir(tmp_path)
    words = ["measure", "here.yaml", "--pool", "tiny", "--workloads", "resnet18"]
    words += ["--trials", "2", "--steps", "40", "--set", "backend.start=preimported"]
    assert main(words) == 0, capsys.readouterr().err
    profile = load_profile(tmp_path / "here.yaml")
    curve = profile.throughput("resnet18", 32)
    assert curve.samples_per_s(1) > 0
    assert curve.samples_per_s(2) > 0
    for kind, sizes in ((ChangeKind.RESCALE, (1, 2)), (ChangeKind.RESUME, (0, 2))):
        cost = profile.rescale_cost("stop_resume", "resnet18", kind, *sizes)
        assert 0.0 < cost.pause_s < 30.0
        assert "import" in cost.phases_s
    assert main(words) == 0  # everything is stored: nothing runs again
    again = load_profile(tmp_path / "here.yaml")
    assert again.digest == profile.digest


@pytest.mark.long
def test_a_run_that_ended_before_all_changes_writes_no_profile(tmp_path):
    """With steps far shorter than the scheduler's pace, the way out is more of them."""
    made = made_up_records({1: 0.001, 2: 0.002}, stop_s=3.0, first_s=0.01, finish_s=0.1)
    planned = points_of(measurement(tmp_path / "traces", sizes=(1, 2), trials=2))
    words = [*planned.common, *planned.points[0].overrides, f"results_dir={tmp_path}/runs"]
    config = plan(read_words(words))
    store = RunStore(tmp_path / "runs")
    with store.create(config.run_id, {}, "") as writer:
        stored = writer.finish(made, {})
    entry = Entry(planned.points[0], words, config, 1.0, "stored", stored=stored)
    problem = what_failed(entry)
    assert "2 of 7 changes were made before the job ended, 1.0 ms a step" in str(problem)
    assert "--steps toy=2000" in str(problem)

"""What a job is held to, and how the two are compared: without training anything."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster import uniform_cluster
from harness.contracts.abilities import Abilities, Reference
from harness.contracts.workload import WorkloadSpec
from harness.engines.live.job import job_seed
from harness.engines.live.reference_cache import FixedOutcomes, Outcome
from harness.engines.live.reference_check import cores_of, equal_steps, fixed_training, last_digests
from harness.engines.live.reference_run import FixedTraining, FixedTrainingError
from harness.results.records import EvaluationRecord, FixedSizeRecord, RunRecords, StepRecord
from harness.sweep.summary import fixed_size_lines
from tests.engines.setups import setup
from tests.replay.worlds import Mechanism, job, profile

TRAINING = FixedTraining("own_package.nets.Net", {"width": 3}, 7, 2, 12, 5)
PROGRAM = Reference("own_program", ("--bitwise",))
LOSSES = [["0x1p0", "0x1p1"], ["0x1p2", "0x1p3"], ["0x1p4", "0x1p5"]]
OUTCOME = Outcome("key", LOSSES, ["0x1p6", "0x1p7", "0x1p8"], {})


def log(folder, *lines):
    path = folder / "steps.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def line(step, losses=None, loss="0x0p0"):
    return {"step": step, "loss": loss, **({} if losses is None else {"losses": losses})}


def test_losses_of_all_workers_are_compared_step_by_step(tmp_path):
    same = [line(n, losses) for n, losses in enumerate(LOSSES, 1)]
    other = line(2, ["0x1p2", "0x1p2"])
    assert equal_steps(log(tmp_path, *same), OUTCOME) == 3
    assert equal_steps(log(tmp_path, same[0], other, same[2]), OUTCOME) == 1
    assert equal_steps(log(tmp_path, *same[:2]), OUTCOME) == 2
    assert equal_steps(tmp_path / "none.jsonl", OUTCOME) == 0
    # Executed again after a death: the later line counts.
    assert equal_steps(log(tmp_path, same[0], other, *same[1:]), OUTCOME) == 3


def test_mean_losses_are_compared_where_a_log_has_no_others(tmp_path):
    means = [line(n, loss=mean) for n, mean in enumerate(OUTCOME.means, 1)]
    assert equal_steps(log(tmp_path, *means), OUTCOME) == 3
    assert equal_steps(log(tmp_path, means[0], line(2)), OUTCOME) == 1


def test_the_last_digests_are_those_a_job_ended_with():
    results = [("a", 8, "digest_buffers", "x"), ("a", 9, "digest_buffers", "y")]
    results += [("a", 9, "accuracy", "0.5"), ("b", 12, "digest_buffers", "z")]
    records = RunRecords(evaluations=[EvaluationRecord(*one) for one in results])
    assert last_digests(records, "a") == ({"digest_buffers": "y"}, 9)
    assert last_digests(records, "c") == ({}, 0)


@pytest.mark.parametrize(("logical", "num_workers"), [(True, 4), (False, 3)])
def test_a_job_is_held_to_its_logical_workers_or_to_those_it_had(logical, num_workers):
    abilities = Abilities(logical_workers=logical)
    spec = replace(job("a"), logical_workers=4)
    net = {spec.workload: WorkloadSpec(spec.workload, "nets.Net", {"width": 3})}
    world = replace(setup(profile(), spec), backend=Mechanism(abilities), workloads=net, seed=5)
    steps = [StepRecord(name, 1, 3, 24, 0.0, 0.1, "0x1p0") for name in ("a", "b")]
    found = fixed_training(spec, steps, 17, world)
    seed = job_seed(5, "a")
    assert found == FixedTraining("nets.Net", {"width": 3}, seed, num_workers, 24, 17)


def test_every_fixed_worker_has_a_core_of_the_clusters():
    options = {"name": "c", "num_hosts": 1, "devices_per_host": 1, "device_type": "cpu"}
    pinned = uniform_cluster(slots_per_device=4, cores_per_slot=1, num_cores=3, **options)
    assert cores_of(pinned, 2) == [0, 1]
    assert cores_of(pinned, 7) == [0, 1, 2, 0, 1, 2, 0]
    assert cores_of(uniform_cluster(slots_per_device=4, **options), 3) == []


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A package with a workload, which can be found but is never imported, and a program."""
    package = tmp_path / "own_package"
    package.mkdir()
    for path in (package / "__init__.py", package / "nets.py"):
        path.write_text("raise RuntimeError('imported')\n")
    shutil.copy(Path(__file__).with_name("program.py"), tmp_path / "own_program.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def trained(folder, program=PROGRAM, **changed):
    """The outcome of a training by a program that writes what it should."""
    scratch = folder.with_name("scratch")
    return FixedOutcomes(folder, program).train(replace(TRAINING, **changed), [0, 1], {}, scratch)


def test_an_outcome_is_found_again_for_the_same_training_alone(sources, tmp_path):
    folder = tmp_path / "kept"
    assert FixedOutcomes(folder, PROGRAM).find(TRAINING) is None
    first = trained(folder)
    assert FixedOutcomes(folder, PROGRAM).find(TRAINING) == first
    assert (first.losses, first.means) == ([["0x1p0", "0x1p1"]], ["0x1p6"])
    assert first.digests == {"digest_buffers": "0"}
    changes = [
        *({name: 3} for name in ("seed", "num_workers", "global_batch", "num_steps")),
        *({"options": {"width": 4}}, {"target": "own_package.nets.Other"}),
        {"program": Reference("own_program", ("--bitwise", "--streams"))},
    ]
    others = {trained(folder, **change).key for change in changes}
    assert len({first.key, *others}) == 1 + len(changes)
    assert len(list(folder.iterdir())) == 1 + len(changes), "nothing but whole files"


@pytest.mark.parametrize("path", ["own_program.py", "own_package/nets.py", "own_package/layers.py"])
def test_what_other_source_trained_is_trained_again(sources, tmp_path, path):
    trained(tmp_path / "kept")
    (sources / path).write_text("x = 1\n")
    assert FixedOutcomes(tmp_path / "kept", PROGRAM).find(TRAINING) is None


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"losses": []', '{"step": 1}\n{}'])
def test_a_damaged_outcome_is_trained_again(sources, tmp_path, text):
    folder = tmp_path / "kept"
    (folder / f"{trained(folder).key}.jsonl").write_text(text)
    assert FixedOutcomes(folder, PROGRAM).find(TRAINING) is None


@pytest.mark.parametrize(
    ("word", "facts"),
    [
        ("--fail", ["ended with 3", "no room for another worker", ".log"]),
        ("--empty", ["wrote no losses", "contracts.abilities.Reference"]),
        ("--half", ["wrote no losses", "KeyError('losses')"]),
        ("--no-digests", ["or no digests", "no digests')"]),
    ],
)
def test_a_program_that_does_not_train_is_told_with_its_log(tmp_path, word, facts):
    outcomes = FixedOutcomes(tmp_path / "kept", Reference("tests.consistency.program", (word,)))
    with pytest.raises(FixedTrainingError) as caught:
        outcomes.train(TRAINING, [0, 1], {}, tmp_path / "scratch")
    assert all(fact in str(caught.value) for fact in facts)
    assert not (tmp_path / "kept").exists()


def test_what_differs_is_said_by_job():
    same = FixedSizeRecord("a", 4, 30, "", 30, "k1")
    other = FixedSizeRecord("b", 2, 40, "digest_buffers digest_parameters", 16, "k2")
    late = replace(other, job_id="c", different="digest_optimizer", equal_steps=40)
    assert fixed_size_lines([]) == []
    assert fixed_size_lines([same]) == [
        "Bitwise equal to training on fixed workers: 1 of 1 finished jobs."
    ]
    head, of_b, of_c = fixed_size_lines([same, other, late])
    assert "1 of 3" in head
    assert of_b.strip() == (
        "b: after 40 steps digest_buffers, digest_parameters differ from 2 fixed workers"
        " (reference k2); losses do from step 17 on"
    )
    assert "digest_optimizer differ" in of_c
    assert of_c.endswith("; no loss does")

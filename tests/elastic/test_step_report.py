"""The log of a job's steps, where the worker that writes it dies."""

import json
from types import SimpleNamespace

import pytest

from systems.elastic.wire.recovery_plan import Membership
from systems.elastic.worker.step_report import StepReport

GROUP = Membership(("w1", "w2"), 12)


def second_worker(folder, steps):
    """A report of a worker that is not the first, after these steps: pairs of step, generation."""
    order = SimpleNamespace(
        worker="w2", job_dir=str(folder), checkpoint=None, evaluate_epochs=0.0, digest_every=0
    )
    workload = SimpleNamespace(num_samples=0)
    session = SimpleNamespace(step=0, job_dir=folder, workload=workload)
    report = StepReport(order, None, session, {}, None)
    for session.step, generation in steps:
        report.step(1.0, 2.0, generation, GROUP, 12, 0.5, None)
    return report


@pytest.mark.parametrize(
    ("logged", "steps", "expected"),
    [
        ([(7, 1)], [(7, 1), (8, 1)], [(7, 1), (8, 1)]),  # it died before the last line
        ([(7, 1), (8, 1)], [(7, 1), (8, 1)], [(7, 1), (8, 1)]),
        # Step 8 was given up with who had made it, and made anew by two others.
        ([(7, 1), (8, 1)], [(7, 1), (8, 3)], [(7, 1), (8, 1), (8, 3)]),
        ([(7, 1), (8, 1), (8, 3)], [(8, 3)], [(7, 1), (8, 1), (8, 3)]),
        ([], [], []),
    ],
)
def test_the_last_step_is_logged_once_in_the_generation_that_counts(
    tmp_path, logged, steps, expected
):
    path = tmp_path / "steps.jsonl"
    lines = [{"step": step, "generation": generation} for step, generation in logged]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    second_worker(tmp_path, steps).complete()
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["step"], line["generation"]) for line in found] == expected


def test_a_step_of_hundreds_of_losses_is_found_again(tmp_path):
    """Its line is longer than what is read of the log at first."""
    path = tmp_path / "steps.jsonl"
    lines = [{"step": step, "generation": 1, "losses": ["0x1.0p0"] * 900} for step in (7, 8)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    second_worker(tmp_path, [(8, 1)]).complete()
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [7, 8]

"""What is read of the files that a job's workers left."""

import json

from harness.engines.live.observations import (
    read_accusations,
    read_digests,
    read_evaluations,
    read_steps,
)


def written(folder, *entries):
    """A file of lines, the last of which its writer did not finish."""
    path = folder / "lines.jsonl"
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries) + '{"step": 9, "di')
    return path


def read(records):
    return [(record.step, record.name, record.value) for record in records]


def test_of_a_step_that_was_made_again_the_later_digest_counts(tmp_path):
    lines = [{"step": step, "digest_parameters": value} for step, value in ((4, "a"), (8, "b"))]
    again = {"step": 4, "digest_parameters": "c"}
    found = read(read_digests(written(tmp_path, *lines, again), "job"))
    assert found == [(4, "digest_parameters", "c"), (8, "digest_parameters", "b")]


def test_an_evaluation_of_the_last_step_is_among_the_results(tmp_path):
    path = written(tmp_path, *({"step": step, "accuracy": step / 10} for step in (2, 4)))
    assert read(read_evaluations(path, "job", 4)) == [(2, "accuracy", "0.2")]


def test_steps_that_were_made_twice_both_happened(tmp_path):
    entry = {"world": 2, "global_batch": 8, "duration_s": 0.5, "loss": "0x1p-1"}
    path = written(tmp_path, *({**entry, "step": 3, "started": at} for at in (11.0, 12.0)))
    found = read_steps(path, "job", 10.0)
    assert [(step.step, step.started_s) for step in found] == [(3, 1.0), (3, 2.0)]


def test_workers_that_were_silent(tmp_path):
    entry = {"at": 12.5, "worker": "w1", "accuser": "w0", "silent_s": 2.0}
    (found,) = read_accusations(written(tmp_path, entry), "job", 10.0)
    assert (found.at_s, found.worker, found.accuser) == (2.5, "job.w1", "job.w0")


def test_where_there_is_no_file_there_is_nothing(tmp_path):
    path = tmp_path / "none"
    assert not read_steps(path, "job", 0.0)
    assert not read_digests(path, "job")
    assert not read_evaluations(path, "job", 1)
    assert not read_accusations(path, "job", 0.0)

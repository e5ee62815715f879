"""The logs of samples: what survives a kill, which lines count, what is missed or repeated."""

import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.live.consumed_samples import count_samples, read_consumed
from systems.runtime.data.make_order import data_order
from systems.runtime.wire.step_log import (
    LineWriter,
    SamplesLog,
    consumed_ids,
    read_lines,
    samples_path,
)

KINDS = ["positions", "blocks"]


class LoggedJob:
    """A job that only logs: generations of workers, deaths, steps done again."""

    def __init__(self, folder, order):
        self.folder, self.order = folder, order
        self.generation, self.step, self.state = 0, 0, order.initial()
        self.ids = []

    def join(self, num_workers):
        """A new generation, with or without a restart."""
        self.generation += 1
        lines = LineWriter(self.folder / "generations.jsonl")
        lines.add({"generation": self.generation, "resumed_at": self.step})
        lines.flush()
        self.logs = [
            SamplesLog(self.folder, self.generation, rank, self.order)
            for rank in range(num_workers)
        ]

    def train(self, num_steps, batch=12):
        for _ in range(num_steps):
            plan = self.order.plan(self.state, len(self.logs), batch)
            for log in self.logs:
                log.add(self.step + 1, plan)
            self.ids += [sample for part in plan.parts for sample in self.order.ids(part)]
            self.step, self.state = self.step + 1, plan.after

    def begin_and_die(self, ranks, batch=12):
        """Some workers log a step that never ends."""
        plan = self.order.plan(self.state, len(self.logs), batch)
        for rank in ranks:
            self.logs[rank].add(self.step + 1, plan)


def job_of(folder, kind, num_samples=97):
    return LoggedJob(folder, data_order(kind, 7, num_samples, 10))


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_counted_once_through_switches_and_deaths(tmp_path, kind):
    job = job_of(tmp_path, kind)
    job.join(2)
    job.train(7)
    job.join(4)  # a switch
    job.train(9)
    job.begin_and_die([0, 2, 3])
    job.join(3)  # the survivors do that step again
    job.train(1)
    job.begin_and_die([1])
    job.join(1)
    job.train(12, batch=30)
    job.begin_and_die([0])
    assert consumed_ids(tmp_path, job.order)[: len(job.ids)] == job.ids
    assert count_samples(tmp_path, job.step) == (0, 0)
    counted = [part for part in read_consumed(tmp_path) if part.step <= job.step]
    assert {part.step for part in counted} == set(range(1, job.step + 1))
    assert {part.generation for part in counted if part.step == 17} == {3}


def test_a_job_that_goes_back_to_a_checkpoint_repeats_nothing(tmp_path):
    job = job_of(tmp_path, "blocks")
    job.join(2)
    job.train(10)
    step, state, ids = job.step, job.state, list(job.ids)
    job.train(6)
    job.step, job.state, job.ids = step, state, ids
    job.join(1)
    job.train(20)
    assert consumed_ids(tmp_path, job.order) == job.ids
    assert count_samples(tmp_path, job.step) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_was_missed_or_repeated_shows(kind, data, tmp_path_factory):
    job = job_of(tmp_path_factory.mktemp("job"), kind, num_samples=40)
    job.join(2)
    job.train(11)
    path = samples_path(job.folder, 1, data.draw(st.integers(0, 1)))
    lines = path.read_text().splitlines(keepends=True)
    index = data.draw(st.integers(1, 6))  # of epochs that are over at the end
    (part,) = [
        part
        for part in read_consumed(job.folder)
        if part.step == index and samples_path(job.folder, 1, part.rank) == path
    ]
    size = sum(stop - start for _, start, stop in part.ranges)
    path.write_text("".join(lines[:index] + lines[index + 1 :]))
    assert count_samples(job.folder, job.step) == (size, 0)
    path.write_text("".join([*lines, lines[index]]))
    assert count_samples(job.folder, job.step) == (0, size)


def test_nothing_logged_is_not_nothing_missed(tmp_path):
    assert count_samples(tmp_path, 3) is None


WRITER = """
import sys
from pathlib import Path
from systems.runtime.data.make_order import data_order
from systems.runtime.wire.step_log import SamplesLog
order = data_order("blocks", 7, 97, 10)
log, state = SamplesLog(Path(sys.argv[1]), 1, 0, order), order.initial()
for step in range(1, 10**9):
    plan = order.plan(state, 2, 12)
    log.add(step, plan)
    state = plan.after
    sys.stdout.write(f"{step}\\n")
    sys.stdout.flush()
"""


def test_no_line_is_lost_when_the_writer_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        told = [writer.stdout.readline() for _ in range(500)]
        os.kill(writer.pid, signal.SIGKILL)
        told += writer.stdout.readlines()
    last = int([line for line in told if line.endswith("\n")][-1])
    lines = [line for line in read_lines(samples_path(tmp_path, 1, 0)) if "step" in line]
    assert [line["step"] for line in lines[:last]] == list(range(1, last + 1))
    assert len(lines) <= last + 1


def test_a_writer_can_be_closed_twice_and_appends(tmp_path):
    path = tmp_path / "lines.jsonl"
    for at_once in (True, False):
        writer = LineWriter(path, at_once=at_once)
        writer.add({"at_once": at_once})
        writer.close()
        writer.close()
    assert [line["at_once"] for line in read_lines(path)] == [True, False]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("num_torn", [0, 1, 200_000])
def test_what_a_killed_writer_left_of_a_line_costs_no_other_line(tmp_path, at_once, num_torn):
    path = tmp_path / "lines.jsonl"
    for step in (1, 2):
        lines = LineWriter(path, at_once=at_once)
        lines.add({"step": step})
        lines.close()
        with path.open("a") as file:
            file.write('{"step": 7, "'[:num_torn] + "x" * (num_torn - 13))
    lines = LineWriter(path, at_once=at_once)
    lines.add({"step": 3})
    lines.close()
    assert [line["step"] for line in read_lines(path)] == [1, 2, 3]


def test_a_file_that_is_all_of_a_torn_line_is_begun_anew(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"st')
    lines = LineWriter(path)
    lines.add({"step": 1})
    lines.flush()
    assert list(read_lines(path)) == [{"step": 1}]


@pytest.mark.parametrize("at_once", [False, True])
def test_lines_that_the_disk_has_no_room_for_follow_when_it_has(tmp_path, at_once):
    path = tmp_path / "lines.jsonl"
    lines = LineWriter(path, at_once=at_once)
    lines.add({"step": 1})
    lines.flush()
    with room_for(path.stat().st_size + 20):  # for one line and a part of the next
        for step in range(2, 6):
            lines.add({"step": step})
            lines.try_flush()
        with pytest.raises(OSError, match="File too large"):
            lines.flush()
        assert [line["step"] for line in read_lines(path)] == [1, 2]
        assert path.read_bytes().endswith(b"\n"), "no part of a line is in the file"
        if at_once:
            LineWriter(path, at_once=True).close()  # a full disk keeps nobody from beginning
    lines.add({"step": 6})
    lines.close()
    assert [line["step"] for line in read_lines(path)] == [1, 2, 3, 4, 5, 6]


def test_a_log_that_cannot_be_closed_says_so(tmp_path):
    lines = LineWriter(tmp_path / "lines.jsonl", at_once=True)
    with room_for(5):
        lines.add({"step": 1})
        with pytest.raises(OSError, match="File too large"):
            lines.close()


@contextmanager
def room_for(num_bytes):
    """No file may be longer: the system refuses to write it, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

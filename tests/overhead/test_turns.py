"""Real processes take turns: while one counts, the others and all they have started stand still."""

import json
import random
from itertools import pairwise

import psutil
import pytest

from harness.bench.overhead.turns import Program, Turn, periods_in, take_turns
from harness.machine.child_process import PointProcess

COUNTER = """
import json, subprocess, sys, time
path, steps, *depth = sys.argv[1:]
if depth and int(depth[0]):
    words = [sys.executable, __file__, path + "-child", steps, str(int(depth[0]) - 1)]
    child = subprocess.Popen(words)
open(path + "-begun", "w").close()
started = []
while len(started) < int(steps):
    started.append(time.monotonic())
    time.sleep(0.002)
if depth and int(depth[0]):
    child.wait()
json.dump(started, open(path, "w"))
"""


@pytest.fixture
def counter(tmp_path, monkeypatch):
    (tmp_path / "counter.py").write_text(COUNTER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(name, steps, depth=0):
        words = [str(tmp_path / name), str(steps), str(depth)]
        process = PointProcess(words, tmp_path / f"{name}.log", "counter")
        return Program(process, (tmp_path / f"{name}-begun").exists)

    return make


def test_a_program_makes_no_step_outside_its_turns(counter, tmp_path):
    programs = {name: counter(name, 400, depth=2) for name in ("a", "b", "c")}
    rounds = take_turns(programs, 0.1, random.Random(1))
    assert [program.process.returncode for program in programs.values()] == [0, 0, 0]
    assert len(rounds) >= 3
    in_turns = [sorted(turns.values(), key=lambda turn: turn.began) for turns in rounds]
    flat = [turn for turns in in_turns for turn in turns]
    assert all(a.ended <= b.began for a, b in pairwise(flat))
    for name in programs:
        for path in (name, f"{name}-child", f"{name}-child-child"):
            started = json.loads((tmp_path / path).read_text())
            for turns in rounds:
                for other, turn in turns.items():
                    # Signals take a moment to arrive; a turn is a hundred milliseconds.
                    late = turn.began + 0.03
                    inside = [at for at in started if late < at < turn.ended]
                    assert other == name or not inside
            assert sum(len(periods_in(turns[name], started)) for turns in rounds) > 50


def test_the_order_of_rounds_is_drawn(counter):
    programs = {name: counter(name, 600) for name in ("a", "b")}
    rounds = take_turns(programs, 0.05, random.Random(1))
    firsts = {min(turns, key=lambda name: turns[name].began) for turns in rounds}
    assert firsts == {"a", "b"}


def test_the_order_of_starting_is_drawn(counter, tmp_path):
    firsts = set()
    for seed in range(4):
        programs = {name: counter(f"{name}{seed}", 200) for name in ("a", "b")}
        take_turns(programs, 0.05, random.Random(seed))
        # By these files, not by the first step: a program may be frozen before that.
        began = {name: (tmp_path / f"{name}{seed}-begun").stat().st_mtime_ns for name in "ab"}
        firsts.add(min(began, key=lambda name: began[name]))
    assert firsts == {"a", "b"}


def test_a_program_that_fails_ends_the_turns_and_the_others_go_on_to_their_end(counter, tmp_path):
    bad = Program(PointProcess([], tmp_path / "bad.log", "no_such"), lambda: False)
    programs = {"good": counter("good", 100), "bad": bad}
    assert take_turns(programs, 0.1, random.Random(1)) == []
    assert programs["good"].process.returncode == 0
    assert programs["bad"].process.returncode == 1


def test_who_is_interrupted_leaves_no_process(counter):
    class StopError(Exception):
        pass

    class Drawn(random.Random):
        def sample(self, *words, **more):
            if len(asked) == 3:
                for program in programs.values():
                    root = psutil.Process(program.process.pid)
                    trees.extend([root, *root.children(recursive=True)])
                raise StopError
            asked.append(1)
            return super().sample(*words, **more)

    asked, trees = [], []
    programs = {name: counter(name, 100_000, depth=1) for name in ("a", "b")}
    with pytest.raises(StopError):
        take_turns(programs, 0.05, Drawn(1))
    assert len(trees) == 4
    assert not psutil.wait_procs(trees, timeout=10)[1]


def test_periods_are_those_inside_without_the_first():
    started = [0.0, 1.0, 2.0, 3.5, 4.0, 9.0, 10.0]
    assert periods_in(Turn(0.5, 5.0), started) == [1.5, 0.5]
    assert periods_in(Turn(1.0, 4.0), started) == [1.5, 0.5]
    assert periods_in(Turn(4.1, 9.5), started) == []
    assert periods_in(Turn(11.0, 12.0), started) == []

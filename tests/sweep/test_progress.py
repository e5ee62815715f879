"""What a person sees while a replay runs: share, elapsed time and what is left of it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.replay import Progress
from harness.sweep.eta import Pace
from harness.sweep.progress import RunProgress

ROOT = Path(__file__).parents[2]


def test_a_steady_pace():
    pace = Pace()
    assert pace.left_s(0.0, 100.0) is None
    assert pace.left_s(0.1, 110.0) == pytest.approx(90.0)
    assert pace.left_s(0.5, 150.0) == pytest.approx(50.0)
    assert pace.left_s(1.0, 200.0) == 0.0


def test_what_an_earlier_run_did_is_in_no_pace():
    pace = Pace()
    pace.left_s(0.5, 0.0)
    assert pace.left_s(0.6, 10.0) == pytest.approx(40.0)


def test_a_pace_that_changed_a_while_ago_is_the_present_one():
    """Ten times slower from 10 s on; the later half of the time knows that alone from 20 s on."""
    pace = Pace()
    for second in range(11):
        pace.left_s(0.05 * second, float(second))
    for second in range(11, 41):
        left_s = pace.left_s(0.5 + 0.005 * (second - 10), float(second))
    assert left_s == pytest.approx((0.5 - 0.15) / 0.005)


def test_a_run_of_days_keeps_few_numbers():
    pace = Pace()
    for second in range(100_000):
        left_s = pace.left_s(second / 200_000, float(second))
    assert left_s == pytest.approx(100_001)
    assert len(pace._times_s) <= 512


class Clock:
    """Seconds that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_plain_lines_now_and_then_where_there_is_no_terminal(capsys):
    clock = Clock()
    with RunProgress(1000, clock=clock) as shown:
        for second in range(61):
            clock.now_s = float(second)
            ended = 10 * second
            shown.show(Progress(3600.0 * second, ended, 1000, num_live=0, num_events=0))
    assert capsys.readouterr().err.splitlines() == [
        "jobs ended: 150 of 1,000 (15%) after 15.0 s, about 1 min 25 s left; 0 live jobs,"
        " at 15 h 0 min of the trace",
        "jobs ended: 300 of 1,000 (30%) after 30.0 s, about 1 min 10 s left; 0 live jobs,"
        " at 30 h 0 min of the trace",
        "jobs ended: 450 of 1,000 (45%) after 45.0 s, about 55.0 s left; 0 live jobs,"
        " at 45 h 0 min of the trace",
        "jobs ended: 600 of 1,000 (60%) after 1 min 0 s, about 40.0 s left; 0 live jobs,"
        " at 60 h 0 min of the trace",
    ]


def on_a_terminal(folder: Path, *words: str) -> str:
    """What a replay writes to its standard error where that is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "harness", f"results_dir={folder}", "tracking=none", *words]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=theirs
    )
    os.close(theirs)
    told = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux says so when nobody has the other end any more
            break
        if not part:
            break
        told += part
    os.close(ours)
    assert process.wait() == 0, told
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", told.decode())


REPLAY = ("trace=itp195", "cluster=a100x128", "scheduler=elasticflow", "profile=a100_elasticflow")


def test_a_bar_with_what_is_left_on_a_terminal(tmp_path):
    told = on_a_terminal(tmp_path, *REPLAY)
    shares = [int(found) for found in re.findall(r"(\d+)%", told)]
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert re.search(
        r"jobs ended .* \d+/[\d,]+ +\d+% 0:00:0\d about .* left; [\d,]+ live jobs, at", told
    )


def test_no_bar_where_none_is_wanted(tmp_path):
    assert on_a_terminal(tmp_path, *REPLAY, "progress=false") == ""

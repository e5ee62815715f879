"""The figure of a trace: what its panels show, and what its command answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from harness.cluster import uniform_cluster
from harness.trace.model.events import TraceEvent, TraceEventKind
from reports.drawing import style
from reports.trace import draw, main
from tests.trace.examples import job, trace

CLUSTER = uniform_cluster(name="small", num_hosts=2, devices_per_host=4, device_type="cpu")
JOBS = (
    job(1, 0.0, slots=2, duration_s=100.0),
    job(2, 50.0, slots=4, duration_s=200.0),
    job(3, 60.0, slots=1, duration_s=300.0),
)


def drawn(of, cluster=None):
    with mpl.rc_context(style.RC):
        return draw(of, cluster)


def lines(axis):
    return [np.array(line.get_xydata()) for line in axis.get_lines()]


def test_slots_in_use_follow_from_arrivals_and_durations():
    axes = drawn(trace(*JOBS)).axes
    assert [axis.get_title(loc="left") for axis in axes] == [
        "Arrivals",
        "Slots in use if no job waited",
        "Demand",
        "Durations",
    ]
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in axes)
    (in_use,) = lines(axes[1])
    steps = [(0, 2), (50, 6), (60, 7), (100, 5), (250, 1), (360, 0)]
    minutes = 60.0  # the figure's unit for times of this length
    assert in_use == pytest.approx(np.array([(at / minutes, slots) for at, slots in steps]))
    shares = [[bar.get_height() for bar in bars] for bars in axes[2].containers]
    assert shares[0] == pytest.approx([100 / 3] * 3)
    assert shares[1] == pytest.approx([100 * work / 1300 for work in (300, 200, 800)])


def test_percentiles_are_durations_of_the_trace_as_show_has_them():
    axis = drawn(trace(*JOBS)).axes[3]
    assert [text.get_text() for text in axis.texts] == ["200 s", "300 s"]
    curve, *dots = lines(axis)
    assert [dot[0].tolist() for dot in dots] == [[200.0, 50.0], [300.0, 90.0]]
    assert set(curve[:, 0]) == {100.0, 200.0, 300.0}


def test_slots_that_are_down_are_missing_from_the_cluster():
    events = [
        TraceEvent(60.0, TraceEventKind.SLOTS_DOWN, (0, 1, 2, 3)),
        TraceEvent(120.0, TraceEventKind.SLOTS_UP, (0, 1, 2, 3)),
    ]
    axis = drawn(trace(*JOBS).with_events("test", events), CLUSTER).axes[1]
    _, up = lines(axis)
    assert up[:3] == pytest.approx(np.array([(0, 8), (1, 4), (2, 8)]))
    assert axis.get_legend().get_texts()[0].get_text() == "slots of small that are up"


def test_unknown_durations_are_said():
    axes = drawn(trace(*(replace(one, duration_s=None) for one in JOBS))).axes
    assert [text.get_text() for axis in (axes[1], axes[3]) for text in axis.texts] == [
        "durations are not known"
    ] * 2


def test_a_shipped_trace_becomes_a_file(tmp_path: Path, capsys):
    path = tmp_path / "new" / "tiresias.svg"
    assert main(["tiresias60", "--cluster", "dgx8", "--out", str(path)]) == 0
    assert capsys.readouterr().out.split() == [str(path)]
    assert path.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["nothing"], "nothing"),
        (["tiresias60", "--cluster", "moon"], "moon"),
        (["tiresias60", "--out", "figure.gif"], "ends in no format; known: .svg, .png, .pdf"),
    ],
)
def test_mistakes_are_told(words, fact, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert fact in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

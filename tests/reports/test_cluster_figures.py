"""Figures of waiting, idle slots and efficiency show the numbers that criteria judge."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from sample_runs import write_run

from reports.drawing import style
from reports.figures import FIGURES
from reports.measures.cluster_numbers import CLUSTER_NUMBERS
from reports.runs.selection import ReportRun, select
from tests.reports.test_cluster_numbers import a_run, grant, some_that_wait


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> ReportRun:
    root: Path = tmp_path_factory.mktemp("runs")
    write_run(root, scheduler="fifo")
    return select([root])[0]


def drawn(name: str, run: ReportRun):
    with mpl.rc_context(style.RC):
        (drawing,) = FIGURES[name].draw([run])
    return drawing


def curves(figure):
    return {
        line.get_label(): (line.get_xdata(), line.get_ydata())
        for axis in figure.axes
        for line in axis.get_lines()
    }


def test_waiting_by_size_is_drawn_as_it_is_judged(stored: ReportRun) -> None:
    jobs = some_that_wait()
    run = a_run(stored, jobs)
    drawing = drawn("waiting_ratios", run)
    small = CLUSTER_NUMBERS["small_jobs_waiting_longer_than_running_share"](run)
    assert drawing.table.rows[0] == ["small", "2", f"{small:.1%}", "0.0%"]
    assert drawing.table.rows[1] == ["medium", "3", "33.3%", "0.0%"]
    shares = [ends[1][-1] for ends in curves(drawing.figure).values()]
    assert shares == [1.0, 1.0, 1.0, 1.0]
    assert drawn("waiting_ratios", a_run(stored, jobs[:2])).missing


def test_idle_intervals_are_drawn_by_their_density(stored: ReportRun) -> None:
    """Lengths of a power law with exponent -2 are a line with that slope."""
    lengths_s = 10.0 / np.linspace(1.0, 0.01, 2000)
    ends_s = np.cumsum(lengths_s + 1.0)
    steps = [grant(n, at - 1.0, at, (0,)) for n, at in enumerate([0.0, *ends_s.tolist()])]
    drawing = drawn("idle_intervals", a_run(stored, (), steps))
    (label, (middles_s, density)), _ = curves(drawing.figure).items()
    assert "2,000 intervals, 97% below 4 min" in label
    slope = np.polyfit(np.log(middles_s), np.log(density), 1)[0]
    assert slope == pytest.approx(-2.0, abs=0.1)
    assert drawn("idle_intervals", a_run(stored, (), steps[:50])).missing


def test_efficiency_over_time_is_the_sum_of_speeds(stored: ReportRun) -> None:
    """Four slots: a job on two of them at 1.5 times its speed on one, then on four at twice it."""
    grants = [grant(0, 0.0, 100.0, (0, 1), 1.5), grant(0, 100.0, 200.0, (0, 1, 2, 3), 2.0)]
    drawing = drawn("efficiency_over_time", a_run(stored, (), grants))
    used, efficiency = (axis.get_lines()[0].get_ydata() for axis in drawing.figure.axes)
    assert (used[0], used[-2]) == (pytest.approx(2 / 4), pytest.approx(1.0))
    assert (efficiency[0], efficiency[-2]) == (pytest.approx(1.5 / 4), pytest.approx(2 / 4))
    unknown = [grant(0, 0.0, 100.0, (0,), None)]
    assert drawn("efficiency_over_time", a_run(stored, (), unknown)).missing

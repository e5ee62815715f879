"""Completion times by how often a scheduler decides, on runs whose numbers are known."""

from types import SimpleNamespace

import pytest

from reports.figures import FIGURES
from reports.runs.selection import ReportRun


def replay(jct_s, trial=0, **options):
    stored = SimpleNamespace(
        run_id=f"{jct_s}-{trial}",
        config={"scheduler": options},
        facts={},
        manifest={"repetition": trial, "choices": {}, "trace": {}, "profile": {}},
        metrics={"jct_mean_s": jct_s},
    )
    return ReportRun(stored, "t", "saxena_dp", "simulated")


def test_a_curve_over_the_periods_and_a_level_for_the_other_triggers():
    runs = [
        replay(600.0, trigger="period", period_s=600),
        replay(1200.0, 1, trigger="period", period_s=600),
        replay(300.0, trigger="period", period_s=60),
        replay(240.0, trigger="event", period_s=600),
    ]
    (drawing,) = FIGURES["decision_interval"].draw(runs)
    assert drawing.table.rows == [
        ["every 1 min", "1", "5.0"],
        ["every 10 min", "2", "15.0 (10.0 to 20.0)"],
        ["at every event", "1", "4.0"],
    ]
    (axis,) = drawing.figure.axes
    curve, *_, level = axis.lines
    assert list(curve.get_xdata()) == [1.0, 10.0]
    assert list(curve.get_ydata()) == pytest.approx([5.0, 15.0])
    assert set(level.get_ydata()) == {4.0}
    assert len(drawing.run_ids) == 4


def test_one_period_is_no_curve():
    runs = [replay(600.0, trigger="period", period_s=600), replay(1.0, every_s=5)]
    (drawing,) = FIGURES["decision_interval"].draw(runs)
    assert drawing.missing == "No scheduler of the selection decides at several periods."

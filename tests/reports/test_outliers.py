"""Outliers are told by the fences of their cell, named, and kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_pages import rows

from reports.measures.outliers import cells, fences
from reports.runs.selection import ReportRun, select


def with_values(runs: list[ReportRun], values: list[float]) -> list[ReportRun]:
    """The runs, with these mean JCTs."""
    return [
        replace(run, stored=replace(run.stored, metrics={"jct_mean_s": value}))
        for run, value in zip(runs, values, strict=True)
    ]


@pytest.fixture(scope="module")
def five(full_store: Path) -> list[ReportRun]:
    """Five trials of one system."""
    return [run for run in select([full_store]) if run.is_live and run.system.startswith("fifo")]


def test_fences_by_hand() -> None:
    # Quartiles of 1 to 5 are 2 and 4: 2 - 1.5 x 2, 4 + 1.5 x 2.
    assert fences([5.0, 1.0, 3.0, 2.0, 4.0]) == (-1.0, 7.0)


def test_one_far_off_is_an_outlier(five: list[ReportRun]) -> None:
    # Quartiles 11 and 13, fences 8 and 16.
    (cell,) = cells(with_values(five, [10.0, 11.0, 12.0, 13.0, 16.1]), ["jct_mean_s"])
    assert (cell.low, cell.high) == (8.0, 16.0)
    assert cell.outside == {five[4].run_id: 16.1}
    (cell,) = cells(with_values(five, [10.0, 11.0, 12.0, 13.0, 16.0]), ["jct_mean_s"])
    assert cell.outside == {}


def test_equal_trials_have_no_outlier_and_one_that_differs_is(five: list[ReportRun]) -> None:
    (cell,) = cells(with_values(five, [3.0] * 5), ["jct_mean_s"])
    assert cell.outside == {}
    (cell,) = cells(with_values(five, [3.0, 3.0, 3.0, 3.0, 2.9]), ["jct_mean_s"])
    assert cell.outside == {five[4].run_id: 2.9}


def test_four_trials_tell_none(five: list[ReportRun]) -> None:
    assert cells(with_values(five[:4], [1.0, 1.0, 1.0, 99.0]), ["jct_mean_s"]) == []


def test_systems_are_cells_of_their_own(full_store: Path) -> None:
    live = [run for run in select([full_store]) if run.is_live]
    found = cells(live, ["jct_mean_s", "makespan_s", "no_metric"])
    assert sorted({cell.system for cell in found}) == [
        "fifo (exact) / stop_resume",
        "uniform (exact) / stop_resume",
    ]
    assert len(found) == 4


def test_the_noise_page_counts_and_names_them(full_site: Path, full_store: Path) -> None:
    live = [run for run in select([full_store]) if run.is_live]
    metrics = ("jct_mean_s", "makespan_s", "throughput_samples_per_s", "replay_wall_s")
    outside = [cell for cell in cells(live, metrics) if cell.outside]
    text = (full_site / "noise.html").read_text(encoding="utf-8")
    assert f"Of 10 cells (one metric each) with at least 5 trials, {len(outside)} have any" in text
    assert "every number of the report includes them" in text
    if outside:
        shown = rows(full_site, "noise-outliers")
        assert {row["runs outside"].split(" (")[0] for row in shown} <= {r.run_id for r in live}
        assert len(shown) == len(outside)

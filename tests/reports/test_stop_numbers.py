"""Numbers of stopping times that criteria judge, on changes worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_runs import write_run

from harness.contracts.change import ChangeKind
from harness.results.records import ChangeRecord
from reports.claims.measures import measured
from reports.runs.selection import ReportRun, select

OUT, IN, MOVE = ((0,), (0, 1)), ((0, 1), (0,)), ((0,), (1,))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> ReportRun:
    root = tmp_path_factory.mktemp("runs")
    write_run(root, scheduler="fifo")
    return select([root])[0]


def a_run(stored: ReportRun, *stops: tuple[tuple[tuple[int, ...], ...], float | None]) -> ReportRun:
    run = replace(stored)
    run.__dict__["changes"] = [
        ChangeRecord(number, "0", ChangeKind.MIGRATE if slots == MOVE else ChangeKind.RESCALE,
                     1.0, 2.0, "done", *slots, stop_s, None)
        for number, (slots, stop_s) in enumerate(stops)
    ]  # fmt: skip
    return run


def test_stops_are_medians_over_changes_of_a_kind(stored: ReportRun) -> None:
    run = a_run(stored, (OUT, 0.3), (OUT, 0.1), (OUT, 0.2), (OUT, None), (IN, 0.05), (MOVE, 0.4))
    found = {
        name: measured(name, run)
        for name in (
            "stop_scale_out_median_s", "stop_scale_in_median_s", "stop_migrate_median_s",
            "stop_scale_in_over_out", "stop_most_over_least_case", "stop_of_longest_case_s",
        )
    }  # fmt: skip
    assert list(found.values()) == pytest.approx([0.2, 0.05, 0.4, 0.25, 8.0, 0.4])


def test_without_such_changes_there_is_no_number(stored: ReportRun) -> None:
    run = a_run(stored, (OUT, 0.3), (OUT, None))
    assert measured("stop_of_longest_case_s", run) == 0.3
    assert measured("stop_most_over_least_case", run) is None
    assert measured("stop_scale_in_over_out", run) is None
    assert measured("stop_of_longest_case_s", a_run(stored)) is None

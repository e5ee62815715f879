"""What a run prints of its numbers."""

from __future__ import annotations

from harness.sweep.summary import metrics_table


def headings(*metrics: dict[str, float]) -> list[object]:
    return [
        column.header for column in metrics_table([({}, "done", row) for row in metrics]).columns
    ]


def test_cancellations_and_interruptions_are_shown_where_there_were_any() -> None:
    quiet = {"jobs_finished": 3.0, "preemptions": 0.0, "interruptions": 0.0}
    assert headings(quiet) == ["status", "finished", "preempt."]
    assert headings(quiet, quiet | {"interruptions": 2.0, "jobs_cancelled": 1.0}) == [
        "status",
        "finished",
        "cancelled",
        "preempt.",
        "interrupt.",
    ]

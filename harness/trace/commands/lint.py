"""Checks of a trace: mistakes and doubtful rows, each with a count, the first rows and advice."""

from __future__ import annotations

from collections import Counter

import numpy as np

from harness.cluster import Cluster
from harness.profiles import Profile, ProfileError
from harness.trace.parsing.findings import Finding, impossible, refusals
from harness.trace.parsing.submissions import Submissions
from harness.trace.parsing.unit_checks import wrong_units

SHORT_S = 60.0
"""Shortest duration that lint does not report, seconds."""

_SHOWN = 3
_ANY_SLOTS = 1 << 20
"""Slot count that is larger than any measured one."""


def lint(
    rows: Submissions, cluster: Cluster | None = None, profile: Profile | None = None
) -> list[Finding]:
    """Return all findings on the rows; findings that prevent loading come first.

    Args:
        rows: rows as a reader parsed them, or as ``from_trace`` makes them from a loaded trace.
        cluster: also find jobs that do not fit on it, or on one of its hosts.
        profile: also find deadlines that no number of slots can meet.
    """
    found = [*refusals(rows), *wrong_units(rows), *_repeated(rows), _unsorted(rows), *_times(rows)]
    if cluster is not None:
        found += _too_large(rows, cluster)
    if profile is not None:
        found += _out_of_reach(rows, cluster, profile)
    return [finding for finding in found if len(finding.rows)]


def report(rows: Submissions, findings: list[Finding]) -> str:
    """Return the findings as text: one paragraph each, with counts and the first rows."""
    count = len(rows)
    parts = []
    for finding in findings:
        number = len(finding.rows)
        level = "REFUSED" if finding.refused else "note"
        lines = [f"{level}: {finding.kind}: {number:,} of {count:,} jobs ({number / count:.1%})"]
        lines += [f"    {rows.where(row)}: {finding.fact(row)}" for row in finding.rows[:_SHOWN]]
        if number > _SHOWN:
            lines.append(f"    ... and {number - _SHOWN:,} more")
        lines.append(f"    {finding.hint}")
        parts.append("\n".join(lines))
    return "\n".join(parts) if parts else "nothing to remark"


def _repeated(rows: Submissions) -> list[Finding]:
    owners = rows.owner or [""] * len(rows)
    keys = list(
        zip(
            rows.arrival_s.tolist(),
            rows.requested_slots.tolist(),
            [None if value != value else value for value in rows.duration_s.tolist()],
            rows.workload,
            owners,
            strict=True,
        )
    )
    first: dict[object, int] = {}
    again = [row for row, key in enumerate(keys) if first.setdefault(key, row) != row]
    return [
        Finding(
            "repeated rows",
            again,
            lambda row: f"the same job as {rows.where(first[keys[row]])}",
            "all are kept, as separate jobs",
        )
    ]


def _unsorted(rows: Submissions) -> Finding:
    earlier = np.flatnonzero(np.diff(rows.arrival_s) < 0) + 1
    column = rows.column("arrival_s")
    return Finding(
        "not in the order of arrival",
        earlier.tolist(),
        lambda row: (
            f"{rows.said('arrival_s', row)},"
            f" {_time(rows.arrival_s[row - 1] - rows.arrival_s[row])} earlier than"
            f" {rows.said('arrival_s', row - 1, '').removeprefix(f'{column} ')} in the row before"
        ),
        "rows are sorted when the trace is loaded",
    )


def _times(rows: Submissions) -> list[Finding]:
    late = impossible(rows)
    with np.errstate(invalid="ignore"):
        end_s = rows.arrival_s + rows.duration_s
        tight = np.flatnonzero((rows.deadline_s < end_s) & (rows.deadline_s > rows.arrival_s))
        short = np.flatnonzero((rows.duration_s < SHORT_S) & (rows.duration_s > 0))
    found = [
        Finding(
            "deadlines before arrival + duration",
            tight.tolist(),
            lambda row: (
                f"{_time(rows.deadline_s[row] - rows.arrival_s[row])} to the deadline, runs"
                f" {_time(rows.duration_s[row])} on {rows.requested_slots[row]} slots"
            ),
            "such a job is late on the slots it asks for; more slots may make it faster",
        ),
        Finding(
            f"durations under {SHORT_S:.0f} s",
            short.tolist(),
            lambda row: f"{rows.said('duration_s', row)}: {_time(rows.duration_s[row])}",
            "the cost of starting may be longer than such a job",
        ),
    ]
    if rows.impossible_deadlines != "refuse":
        found.append(
            Finding(
                "deadlines not after submission",
                late.tolist(),
                lambda row: f"{_time(rows.arrival_s[row] - rows.deadline_s[row])} too early",
                f"the reader's impossible_deadlines is {rows.impossible_deadlines}",
            )
        )
    return found


def _too_large(rows: Submissions, cluster: Cluster) -> list[Finding]:
    def asks(row: int) -> str:
        return f"{rows.column('requested_slots')} is {rows.requested_slots[row]}"

    host = max(Counter(cluster.host_of).values())
    slots = rows.requested_slots
    return [
        Finding(
            f"larger than the cluster {cluster.name} ({cluster.num_slots} slots)",
            np.flatnonzero(slots > cluster.num_slots).tolist(),
            asks,
            "such a job can never start; cap its demand with the transform CapDemand",
        ),
        Finding(
            f"larger than any host of {cluster.name} ({host} slots)",
            np.flatnonzero((slots > host) & (slots <= cluster.num_slots)).tolist(),
            asks,
            "such a job spans hosts",
        ),
    ]


def _out_of_reach(rows: Submissions, cluster: Cluster | None, profile: Profile) -> list[Finding]:
    """Return findings for deadlines out of reach at any size, and for workloads without a curve."""
    most = cluster.num_slots if cluster is not None else _ANY_SLOTS
    fastest: dict[int, float] = {}
    unknown = []
    for row in np.flatnonzero(~np.isnan(rows.deadline_s) & (rows.global_batch > 0)).tolist():
        try:
            curve = profile.throughput(rows.workload[row], int(rows.global_batch[row]))
        except ProfileError:
            unknown.append(row)
            continue
        own = float("nan") if rows.max_slots is None else rows.max_slots[row]
        limit = most if np.isnan(own) else min(most, int(own))
        if limit >= 1:
            speed = curve.samples_per_s(curve.best_slots(limit))
            fastest[row] = float(rows.work_samples[row]) / speed
    left_s = rows.deadline_s - rows.arrival_s
    where = f"on {cluster.name}" if cluster is not None else "on any number of slots"
    return [
        Finding(
            f"impossible deadlines {where}, by profile {profile.name}",
            [row for row, needed_s in fastest.items() if 0 < left_s[row] < needed_s],
            lambda row: (
                f"{_time(left_s[row])} to the deadline, and at its fastest it needs"
                f" {_time(fastest[row])}"
            ),
            "admission control refuses such a job; without it the job is late",
        ),
        Finding(
            f"deadlines of programs without a curve in profile {profile.name}",
            unknown,
            lambda row: f"{rows.column('workload')} is {rows.workload[row]!r}",
            "it is unknown whether they can be met; give a profile that has the program",
        ),
    ]


def _time(seconds: float) -> str:
    return f"{seconds:,.10g} s"

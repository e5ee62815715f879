"""Checks for times that were probably read in a wrong unit.

The bounds are far from every shipped trace: their longest span is 149 days, and their longest mean
duration is 2.7 days.
"""

from __future__ import annotations

import numpy as np

from harness.trace.parsing.findings import Finding
from harness.trace.parsing.submissions import Submissions
from harness.trace.parsing.table import Floats

DAY_S = 86400.0
YEAR_S = 365.25 * DAY_S

_DECADE_S = 10 * YEAR_S
"""Longest plausible span of a trace, and time to a deadline, seconds."""
_LONG_MEAN_S, _SHORT_MEAN_S = 10 * DAY_S, 1.0
"""Largest and smallest plausible mean duration, seconds."""
_FAR = 100.0
"""Largest plausible median of time to the deadline over duration."""
_LEAST_RUNNING, _LEAST_JOBS = 0.05, 20
"""Least plausible mean number of jobs running at a time, and the fewest jobs of a trace for which
this is checked."""
_EPOCH_S = (5e8, 5e9)
"""Seconds since 1970 in this range are dates from 1985 to 2128."""
_EPOCH_MS = 1e11
"""Smallest arrival that must be in milliseconds: in seconds since 1970 it would be after the year
5000."""


def wrong_units(rows: Submissions) -> list[Finding]:
    """Return a finding for each time that is implausible in the unit that the reader assumed."""
    found = [*_arrivals(rows), *_durations(rows), *_deadlines(rows), *_waits(rows)]
    return found if any(len(finding.rows) for finding in found) else [*found, *_running(rows)]


def _waits(rows: Submissions) -> list[Finding]:
    if rows.wait_s is None:
        return []
    wait_s = rows.wait_s
    far = np.abs(wait_s) > _DECADE_S

    def fact(row: int) -> str:
        side = "earlier" if wait_s[row] < 0 else "later"
        said = rows.said("arrival_s", row)
        return f"{said}, and the start is {_long(abs(float(wait_s[row])))} {side}"

    return [
        Finding(
            f"starts more than {_long(_DECADE_S)} from submission",
            np.flatnonzero(far).tolist(),
            fact,
            "check that arrival and start are on one clock; correct units, or leave out start",
        ),
        Finding(
            "starts before submission",
            np.flatnonzero((wait_s < 0) & ~far).tolist(),
            fact,
            "their recorded waits are ignored; check that arrival and start have the same time "
            "zone",
        ),
    ]


def _running(rows: Submissions) -> list[Finding]:
    """Return a finding if almost no job ever runs, though each time alone is plausible."""
    known = np.flatnonzero(rows.duration_s > 0)
    span_s = float(np.ptp(rows.arrival_s))
    if len(known) < _LEAST_JOBS or span_s <= 0:
        return []
    running = float(rows.duration_s[known].sum()) / span_s
    return [
        Finding(
            f"{running:.3g} jobs at a time, if each runs when it is submitted",
            known.tolist() if running < _LEAST_RUNNING else [],
            lambda row: f"{rows.said('duration_s', row)}: {_long(float(rows.duration_s[row]))}",
            "check that arrival and duration have the same unit in the file; correct units",
        )
    ]


def _arrivals(rows: Submissions) -> list[Finding]:
    arrival_s = rows.arrival_s
    is_ms = arrival_s >= _EPOCH_MS
    order = np.argsort(arrival_s, kind="stable")
    span_s = float(arrival_s[order[-1]] - arrival_s[order[0]])
    ends = [int(order[0]), int(order[-1])] if span_s > _DECADE_S and not is_ms.any() else []
    hint = "milliseconds need units: {arrival: ms}; a submission at 0 or in 1970 has no date"
    return [
        Finding(
            "submissions after the year 5000, if they are seconds since 1970",
            np.flatnonzero(is_ms).tolist(),
            lambda row: rows.said("arrival_s", row),
            "they look like milliseconds: units: {arrival: ms}",
        ),
        Finding(
            f"first and last submission are {_long(span_s)} apart",
            ends,
            lambda row: rows.said("arrival_s", row),
            hint,
        ),
    ]


def _durations(rows: Submissions) -> list[Finding]:
    known = np.flatnonzero(~np.isnan(rows.duration_s))
    if not len(known):
        return []
    mean_s = float(rows.duration_s[known].mean())
    if _SHORT_MEAN_S <= mean_s <= _LONG_MEAN_S or mean_s <= 0:
        return []
    if mean_s < _SHORT_MEAN_S:
        hint = "hours or days need units: {duration: h} or {duration: d}"
    elif mean_s >= _EPOCH_S[0]:
        hint = "a date is no duration: name the columns of start and end instead"
    else:
        hint = (
            f"as milliseconds they would last {_long(mean_s / 1000)} on average: "
            "units: {duration: ms}"
        )
    first = known[np.argsort(-np.abs(rows.duration_s[known]), kind="stable")]
    return [
        Finding(
            f"mean duration of {_long(mean_s)}",
            first.tolist(),
            lambda row: f"{rows.said('duration_s', row)}: {_long(float(rows.duration_s[row]))}",
            hint,
        )
    ]


def _deadlines(rows: Submissions) -> list[Finding]:
    with_one = np.flatnonzero(~np.isnan(rows.deadline_s))
    if not len(with_one):
        return []
    left_s = rows.deadline_s - rows.arrival_s
    away = with_one[left_s[with_one] > _DECADE_S]
    found = [
        Finding(
            f"deadlines more than {_long(_DECADE_S)} after submission",
            away.tolist(),
            lambda row: f"{rows.said('deadline_s', row)}: {_long(float(left_s[row]))} later",
            _of_far_deadlines(left_s[away]),
        )
    ]
    first_s = float(rows.arrival_s.min())
    if float(rows.deadline_s[with_one].max()) < first_s and first_s > _EPOCH_S[0]:
        found.append(
            Finding(
                "deadlines before the first submission of the trace",
                with_one.tolist(),
                lambda row: rows.said("deadline_s", row),
                "if they count from submission, set deadlines: relative",
            )
        )
    with np.errstate(divide="ignore", invalid="ignore"):  # durations of 0 are reported elsewhere
        ratio = left_s[with_one] / rows.duration_s[with_one]
    known = np.isfinite(ratio)
    if not len(away) and known.any() and float(np.median(ratio[known])) > _FAR:
        times = f"{float(np.median(ratio[known])):,.0f}"
        found.append(
            Finding(
                f"deadlines {times} durations after submission (median)",
                with_one[known].tolist(),
                lambda row: (
                    f"{rows.said('deadline_s', row)}: {_long(float(left_s[row]))} later, runs"
                    f" {_long(float(rows.duration_s[row]))}"
                ),
                "check that deadline and duration have the same unit in the file; correct units",
            )
        )
    return found


def _of_far_deadlines(left_s: Floats) -> str:
    median_s = float(np.median(left_s)) if len(left_s) else 0.0
    if median_s >= _EPOCH_MS:
        return "they look like milliseconds: units: {deadline: ms}"
    if median_s >= _EPOCH_S[0]:
        return "they look like seconds since 1970, counted from submission: deadlines: absolute"
    return "milliseconds need units: {deadline: ms}; leave the cell empty if a job has no deadline"


def _long(seconds: float) -> str:
    """Return a time as text, in a unit that gives a readable number."""
    for unit_s, name in ((YEAR_S, "years"), (DAY_S, "days"), (3600.0, "h"), (60.0, "min")):
        if abs(seconds) >= 2 * unit_s:
            return f"{seconds / unit_s:,.1f} {name}"
    return f"{seconds:,.3g} s"

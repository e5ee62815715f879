"""Reader of the Microsoft Philly trace as published: a JSON list of jobs with their attempts.

A job has ``jobid``, ``vc``, ``user``, ``status`` (Pass, Killed, Failed), ``submitted_time`` and
``attempts``. An attempt has ``start_time``, ``end_time`` and ``detail``, a list of hosts with their
GPUs. Times are dates of the cluster's clock, without a zone; in the real file some are the text
"None" or null.

An attempt counts if it has a start, an end, and a GPU. The duration of a job is the time of all its
attempts. Its demand is the largest number of GPUs that one attempt had. Jobs without an attempt
that counts never ran: they are left out, and the trace's history says how many. The wait of a job
is recorded if its attempts followed one another without a gap. A job that was started several times
is still one submission.

Programs are not known: work is counted in slot-seconds, as in the CSV (``harness.trace.philly``).
The work of a job is the sum over its attempts of time x GPUs.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
USENIX ATC 2019.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import suggest
from harness.files.bounded_file import opened_plain, parse_json
from harness.trace.model.trace import Trace, TraceError
from harness.trace.parsing.assemble import to_trace
from harness.trace.parsing.submissions import Submissions
from harness.trace.parsing.table import display
from harness.trace.philly import RECORDED

STATUSES = ("Pass", "Killed", "Failed")
_NO_TIME = (None, "None", "")


@dataclass(frozen=True, slots=True)
class _Job:
    place: str
    name: str
    owner: str
    submitted_s: float
    running_s: float
    wait_s: float
    """Seconds from submission to first attempt; NaN if the job also waited between attempts."""
    slots: int
    slot_s: float


@dataclass(frozen=True, slots=True)
class _Attempt:
    start_s: float
    end_s: float
    gpus: int


class PhillyJsonReader:
    """Reader of ``cluster_job_log``.

    Args:
        path: the file; ``.gz`` is fine.
        statuses: only jobs that ended with one of these; None: all.
        clusters: only the jobs of these virtual clusters; None: all.
        elastic: whether a scheduler may give another number of slots than was asked for.

    Raises:
        ValueError: a status is unknown.
    """

    def __init__(
        self,
        path: str,
        *,
        statuses: Sequence[str] | None = None,
        clusters: Sequence[str] | None = None,
        elastic: bool = False,
    ) -> None:
        unknown = sorted(set(statuses or ()) - set(STATUSES))
        if unknown:
            raise ValueError(
                "\n".join(f"unknown status {name!r}; {suggest(name, STATUSES)}" for name in unknown)
            )
        self._path = Path(path)
        self._statuses = statuses
        self._clusters = clusters
        self._elastic = elastic

    def recognises(self, columns: Sequence[str]) -> bool:
        """Return False: the file is JSON and has no columns."""
        return False

    def parse(self) -> Submissions:
        """Return the jobs as they are; see ``harness.trace.parsing.submissions.Reader``."""
        shown = display(self._path)
        problems: list[str] = []
        entries = _entries(self._path, shown)
        wanted = [entry for entry in entries if self._is_wanted(entry[1])]
        notes = set()
        if len(wanted) < len(entries):
            notes.add(f"{len(wanted)} of {len(entries)} jobs, by the options statuses and clusters")
        found = [_job(place, entry, problems) for place, entry in wanted]
        if problems:
            raise TraceError(problems)
        jobs = [job for job in found if job is not None]
        if len(jobs) < len(found):
            notes.add(f"{len(found) - len(jobs)} jobs left out: they never had a GPU")
        if not jobs:
            raise TraceError([f"{shown}: no job is left; {'; '.join(sorted(notes))}"])
        slots = np.array([job.slots for job in jobs], dtype=np.int64)
        return Submissions(
            path=shown,
            lines=np.arange(len(jobs)),
            arrival_s=np.array([job.submitted_s for job in jobs]),
            requested_slots=slots,
            workload=[RECORDED] * len(jobs),
            global_batch=slots,
            work_samples=np.array([job.slot_s for job in jobs]),
            work_in_slot_s=True,
            duration_s=np.array([job.running_s for job in jobs]),
            deadline_s=np.full(len(jobs), np.nan),
            wait_s=np.array([job.wait_s for job in jobs]),
            job_ids=[job.name for job in jobs],
            owner=[job.owner for job in jobs],
            elastic=self._elastic,
            notes=frozenset(notes),
            places=[job.place for job in jobs],
            names={
                "job_id": "jobid",
                "arrival_s": "submitted_time",
                "duration_s": "time of all attempts",
                "requested_slots": "GPUs of an attempt",
                "work_samples": "GPU time of all attempts",
            },
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that the reader reads."""
        return (self._path,)

    def read(self) -> Trace:
        """Return the trace; see ``harness.trace.parsing.submissions.Reader``."""
        return to_trace(
            self.parse(), name=self._path.name.split(".")[0], generated=("global_batch",)
        )

    def _is_wanted(self, entry: Any) -> bool:
        if not isinstance(entry, Mapping):
            return True  # not a mapping: reported later, as a problem of this entry
        return (self._statuses is None or entry.get("status") in self._statuses) and (
            self._clusters is None or entry.get("vc") in self._clusters
        )


def _entries(path: Path, shown: str) -> list[tuple[str, Any]]:
    """Return every entry of the list with its place.

    Raises:
        TraceError: the file is absent, is not JSON, or is not a list with entries.
    """
    try:
        with opened_plain(path, follow=True) as file:
            content = parse_json(file.read().decode("utf-8-sig"))
    except ValueError as error:
        raise TraceError([f"{shown}: not JSON ({error}); give the published file"]) from error
    except OSError as error:
        raise TraceError([f"{shown}: cannot be read ({error}); give a whole file"]) from error
    if not isinstance(content, list) or not content:
        raise TraceError([f"{shown}: is no list of jobs; give the published cluster_job_log"])
    return [(f"{shown}[{number}]", entry) for number, entry in enumerate(content)]


def _job(place: str, entry: Any, problems: list[str]) -> _Job | None:
    """Return the job of an entry; None if it never had a GPU or is wrong, which adds a problem."""
    before = len(problems)
    if not isinstance(entry, Mapping):
        problems.append(f"{place}: is {_short(entry)}; give a job, a mapping")
        return None
    name, attempts = entry.get("jobid"), entry.get("attempts")
    if not isinstance(name, str):
        problems.append(f"{place}: jobid is {_short(name)}; give the job's name")
    if not isinstance(attempts, list):
        problems.append(f"{place}: attempts is {_short(attempts)}; give a list")
        attempts = []
    submitted_s = _date(place, "submitted_time", entry.get("submitted_time"), problems)
    if submitted_s is None and len(problems) == before:
        problems.append(f"{place}: submitted_time is missing; give it, or remove the job")
    parts = [
        part
        for number, attempt in enumerate(attempts)
        for part in _attempt(f"{place}.attempts[{number}]", attempt, problems)
    ]
    if len(problems) > before or submitted_s is None or not parts:
        return None
    running_s = sum(part.end_s - part.start_s for part in parts)
    first_start_s, last_end_s = min(p.start_s for p in parts), max(p.end_s for p in parts)
    # If the job waited between attempts, its end is not arrival + first wait + running time.
    waited_once = running_s == last_end_s - first_start_s
    return _Job(
        place,
        str(name),
        str(entry.get("vc") or ""),
        submitted_s,
        running_s,
        first_start_s - submitted_s if waited_once else math.nan,
        max(part.gpus for part in parts),
        sum((part.end_s - part.start_s) * part.gpus for part in parts),
    )


def _attempt(place: str, attempt: Any, problems: list[str]) -> Iterator[_Attempt]:
    """Yield the attempt if it counts, else nothing."""
    if not isinstance(attempt, Mapping):
        problems.append(f"{place}: is {_short(attempt)}; give an attempt, a mapping")
        return
    if missing := [key for key in ("start_time", "end_time", "detail") if key not in attempt]:
        # An empty value means that the attempt never ran; an absent key may be a misspelled one.
        problems.append(f"{place}: has no {' and no '.join(missing)}; give them, or null")
        return
    start_s = _date(place, "start_time", attempt["start_time"], problems)
    end_s = _date(place, "end_time", attempt["end_time"], problems)
    hosts = attempt["detail"] or []
    if not isinstance(hosts, list) or not all(
        isinstance(host, Mapping) and "gpus" in host and isinstance(host["gpus"] or [], list)
        for host in hosts
    ):
        problems.append(f"{place}.detail is {_short(hosts)}; give a list of hosts with gpus")
        return
    gpus = sum(len(host["gpus"] or []) for host in hosts)
    if start_s is None or end_s is None or not gpus:
        return
    if end_s < start_s:
        problems.append(
            f"{place}: ends {start_s - end_s:.0f} s before it starts; correct the times"
        )
        return
    if end_s > start_s:
        yield _Attempt(start_s, end_s, gpus)


def _date(place: str, key: str, value: Any, problems: list[str]) -> float | None:
    """Return seconds since 1970, with dates read as UTC; None if there is no time."""
    if value in _NO_TIME:
        return None
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        problems.append(
            f"{place}: {key} is {_short(value)}; give a date like '2017-10-07 01:11:39'"
        )
        return None
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

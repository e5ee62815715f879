"""Transforms that add events other than submissions; they come last in a trace's list."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.cluster import Cluster
from harness.errors import suggest
from harness.files.bounded_file import MOST_BYTES, read_text
from harness.trace.model.context import TransformContext, check, positive
from harness.trace.model.events import TraceEvent, TraceEventKind
from harness.trace.model.trace import Trace, TraceError

_COLUMNS = ("time_s", "event", "slots", "job_id")


@dataclass(frozen=True)
class HostFailures:
    """Hosts that fail without notice and are repaired; both times are exponential.

    Each host of the run's cluster has its own sequence, from 0 to ``until_s``. The default of
    ``until_s`` is the end of the last job, if every job started on arrival. A host that is down at
    that time is still repaired. Slots that also go down by another transform must be on other
    hosts.
    """

    mean_uptime_s: float
    """Mean time from a repair to the next failure."""
    mean_repair_s: float
    until_s: float | None = None
    hosts: tuple[int, ...] | None = None
    """Hosts that fail, numbered from 0; None: all."""

    def __post_init__(self) -> None:
        check(
            positive("mean_uptime_s", self.mean_uptime_s),
            positive("mean_repair_s", self.mean_repair_s),
            self.until_s is not None and positive("until_s", self.until_s),
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the trace with the failures of the run's hosts.

        Raises:
            TraceError: the run has no cluster, or its cluster lacks a host.
        """
        cluster = _cluster(context, "HostFailures")
        failing = range(len(cluster.hosts)) if self.hosts is None else sorted(set(self.hosts))
        if unknown := [index for index in failing if not 0 <= index < len(cluster.hosts)]:
            raise TraceError(
                [
                    f"HostFailures: there is no host {unknown[0]} in cluster {cluster.name}, whose"
                    f" {len(cluster.hosts)} hosts are numbered from 0; correct hosts"
                ]
            )
        end_s = trace.end_s if self.until_s is None else self.until_s
        events = []
        for index in failing:
            rng = context.rng(f"trace.HostFailures.{index}")
            windows = self._windows(rng, end_s)
            events += [
                event
                for window in windows
                for event in _outage(cluster.hosts[index].slots, *window)
            ]
        note = (
            f"HostFailures: {len(events) // 2} of {len(failing)} hosts in {end_s:.10g} s,"
            f" {self.mean_uptime_s:.10g} s apart on each and {self.mean_repair_s:.10g} s long in"
            f" the mean, seed {context.seed}"
        )
        return trace.with_events(note, events)

    def _windows(self, rng: np.random.Generator, end_s: float) -> Iterator[tuple[float, float]]:
        at_s = rng.exponential(self.mean_uptime_s)
        while at_s < end_s:
            until_s = at_s + rng.exponential(self.mean_repair_s)
            yield at_s, until_s
            at_s = until_s + rng.exponential(self.mean_uptime_s)


@dataclass(frozen=True)
class TransientSlots:
    """Slots that come and go repeatedly, and leave without notice.

    They are away for ``away_s`` first, then available for ``there_s``, and so on to ``until_s``.
    After that they remain available. The default of ``until_s`` is the end of the last job, if
    every job started on arrival. With ``random`` both times are means of exponential times, which
    are drawn for all slots together.
    """

    slots: tuple[int, ...]
    there_s: float
    away_s: float
    random: bool = False
    until_s: float | None = None

    def __post_init__(self) -> None:
        check(
            not self.slots and "slots is empty; name the slots that come and go",
            positive("there_s", self.there_s),
            positive("away_s", self.away_s),
            self.until_s is not None and positive("until_s", self.until_s),
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the trace with the coming and going of the slots."""
        end_s = trace.end_s if self.until_s is None else self.until_s
        rng = context.rng("trace.TransientSlots")
        slots = tuple(sorted(set(self.slots)))
        events: list[TraceEvent] = []
        at_s = 0.0
        while at_s < end_s:
            away_s, there_s = (
                rng.exponential(mean_s) if self.random else mean_s
                for mean_s in (self.away_s, self.there_s)
            )
            events += _outage(slots, at_s, at_s + away_s)
            at_s += away_s + there_s
        note = (
            f"TransientSlots: {len(slots)} slots, {len(events) // 2} times away for"
            f" {self.away_s:.10g} s, there for {self.there_s:.10g} s"
            + (f" in the mean, seed {context.seed}" if self.random else "")
        )
        return trace.with_events(note, events)


@dataclass(frozen=True)
class CancelJobs:
    """Cancellations by owners, within ``durations`` times a job's duration after its arrival.

    A ``share`` of the jobs is drawn. The moment is drawn evenly; a job that has ended by then is
    not affected.
    """

    share: float
    durations: float = 1.0

    def __post_init__(self) -> None:
        check(
            not 0 < self.share <= 1 and f"share is {self.share}; it must lie in (0, 1]",
            positive("durations", self.durations),
        )

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the trace with the cancellations.

        Raises:
            TraceError: the duration of a job is unknown.
        """
        unknown = [job.job_id for job in trace.jobs if job.duration_s is None]
        if unknown:
            raise TraceError(
                [
                    f"CancelJobs: {len(unknown)} jobs of {trace.name} have no duration (first:"
                    f" {unknown[0]}); leave the transform out, or read their durations"
                ]
            )
        rng = context.rng("trace.CancelJobs")
        drawn = rng.random((len(trace.jobs), 2))
        events = [
            TraceEvent(
                # Above 0: an event must come after its job's arrival.
                job.arrival_s + max(1e-3, moment * self.durations * (job.duration_s or 0.0)),
                TraceEventKind.CANCEL,
                job_id=job.job_id,
            )
            for job, (chance, moment) in zip(trace.jobs, drawn.tolist(), strict=True)
            if chance < self.share
        ]
        note = (
            f"CancelJobs: {len(events)} of {len(trace.jobs)} jobs, within {self.durations:.10g}"
            f" durations of their arrival, seed {context.seed}"
        )
        return trace.with_events(note, events)


@dataclass(frozen=True)
class ReadEvents:
    """Events from a CSV file with the columns time_s, event, slots and job_id.

    ``event`` is slots_down, slots_up, cancel, fail or crash; ``slots`` lists numbers and ranges,
    such as ``0-3 8``. Times are on the clock of the trace after the transforms before this one.
    """

    path: str
    """Path of the CSV file: absolute, or relative to the folder of the trace's YAML."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that the transform reads."""
        return (Path(self.path),)

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the trace with the events of the file.

        Raises:
            TraceError: the file cannot be read or has wrong lines; all lines are listed.
        """
        events, problems = _read(Path(self.path))
        if problems:
            raise TraceError(problems)
        note = f"ReadEvents: {len(events)} events of {Path(self.path).name}"
        return trace.with_events(note, events, are_generated=False)


def _read(path: Path) -> tuple[list[TraceEvent], list[str]]:
    try:
        lines = read_text(path, most_bytes=MOST_BYTES, follow=True).splitlines()
        rows = list(csv.reader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        return [], [f"{path}: cannot be read ({error}); correct the path of ReadEvents"]
    header = tuple(name.strip() for name in rows[0]) if rows else ()
    if sorted(header) != sorted(_COLUMNS):
        wanted = ", ".join(_COLUMNS)
        return [], [f"{path}:1: the columns are {', '.join(header) or 'none'}; give {wanted}"]
    events, problems = [], []
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        try:
            values = dict(zip(header, map(str.strip, row), strict=True))
            events.append(_event(values))
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}; correct or remove the line")
    return events, problems


def _event(values: Mapping[str, str]) -> TraceEvent:
    """Return the event of one line.

    Raises:
        ValueError: a cell is wrong, or contradicts another.
    """
    word, job_id = values["event"], values["job_id"]
    kinds = [kind.value for kind in TraceEventKind]
    if word not in kinds:
        raise ValueError(f"event is {word!r}; {suggest(word, kinds)}")
    try:
        time_s = float(values["time_s"])
    except ValueError:
        raise ValueError(f"time_s is {values['time_s']!r}; give seconds") from None
    kind, slots = TraceEventKind(word), tuple(_slots(values["slots"]))
    if kind.is_of_job and not job_id:
        raise ValueError(f"job_id is empty; the event {kind} needs the id of a job")
    if not kind.is_of_job and not slots:
        raise ValueError(f"slots is empty; the event {kind} needs slots, such as 0-3 8")
    return TraceEvent(time_s, kind, slots, job_id)


_SLOT_DIGITS = 6
"""Largest number of digits of a slot's number, which bounds the memory for a range in the file."""


def _slots(text: str) -> Iterator[int]:
    for word in text.split():
        first, dash, last = word.partition("-")
        if not first.isdecimal() or not (last.isdecimal() if dash else True):
            raise ValueError(f"slots has {word!r}; give numbers and ranges, such as 0-3 8")
        if max(len(first), len(last)) > _SLOT_DIGITS:
            raise ValueError(f"slots has {word!r:.40}; no cluster has that many slots")
        if dash and int(first) > int(last):
            raise ValueError(f"slots has {word!r}; a range goes upwards: {last}-{first}")
        yield from range(int(first), int(last or first) + 1)


def _outage(slots: Iterable[int], from_s: float, until_s: float) -> list[TraceEvent]:
    concerned = tuple(sorted(slots))
    return [
        TraceEvent(from_s, TraceEventKind.SLOTS_DOWN, concerned),
        TraceEvent(until_s, TraceEventKind.SLOTS_UP, concerned),
    ]


def _cluster(context: TransformContext, name: str) -> Cluster:
    if context.cluster is None:
        raise TraceError([f"{name} needs a cluster; name one with --cluster"])
    return context.cluster

"""The trace: an ordered list of job submissions, with its source and the history of its changes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter

from harness.contracts.job import JobSpec
from harness.errors import Problem, UserError
from harness.trace.model.events import TraceEvent, event_problems, in_order

_SHOWN = 12
_LATER_FIELDS = ("stated_work_ratio",)
"""Fields added after digests were stored; they enter a digest only with a non-default value."""
_FIELDS = tuple(each.name for each in fields(JobSpec) if each.name not in _LATER_FIELDS)
_DEFAULTS = {each.name: each.default for each in fields(JobSpec) if each.name in _LATER_FIELDS}
_values = attrgetter(*_FIELDS)


class TraceError(UserError):
    """All mistakes of a trace: ``problems`` has one entry for each.

    The text fits one screen: the first problems, and the number of the others.
    """

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:_SHOWN]]
        more = len(self.problems) - len(lines)
        if more:
            lines.append(f"... and {more:,} more like these")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type[TraceError], tuple[list[Problem | str]]]:
        return type(self), (self.problems,)


@dataclass(frozen=True)
class Trace:
    """Trace: jobs in order of arrival, ties by job id. When a trace is read, its first job arrives
    at 0.

    Raises:
        TraceError: there is no job, two jobs share an id, or jobs are not in that order.
    """

    name: str
    jobs: tuple[JobSpec, ...]
    source: str = "not stated"
    """Repository, path and commit of the file."""
    licence: str = "not stated"
    generated: frozenset[str] = frozenset()
    """Fields of ``JobSpec`` (or ``events``) whose values were generated and not recorded."""
    history: tuple[str, ...] = ()
    """Steps that led from the recorded jobs to these, one readable line each."""
    events: tuple[TraceEvent, ...] = ()
    """Events other than submissions, in their order: failing slots, cancelled or crashing jobs."""
    work_in_slot_s: bool = False
    """True if ``work_samples`` are slot-seconds; only the workload ``recorded`` trains those."""
    files_digest: str | None = None
    """SHA-256 of the files that reader and transforms read, the same for every seed, profile and
    cluster. It is None if the reader does not name its files. It is not part of ``digest``."""
    recorded_wait_s: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)
    """Recorded start minus arrival, seconds, by job id, for jobs that have one. Reports show it
    next to results; neither the replay nor the digest uses it."""

    def __post_init__(self) -> None:
        if not self.jobs:
            last = f" after: {self.history[-1]}" if self.history else ""
            raise TraceError([f"trace {self.name}: no job is left{last}; keep at least one"])
        counts = Counter(job.job_id for job in self.jobs)
        if len(counts) < len(self.jobs):
            twice = [name for name, count in counts.items() if count > 1]
            raise TraceError(
                f"trace {self.name}: job id {name!r} is used {counts[name]} times; give every job "
                "a different id"
                for name in twice
            )
        order = [job.order for job in self.jobs]
        if any(later < earlier for earlier, later in pairwise(order)):
            raise TraceError(
                [f"trace {self.name}: jobs are not in the order of arrival; sort by job.order"]
            )
        if self.events != in_order(self.events):
            raise TraceError([f"trace {self.name}: events are not in order; sort by event.order"])
        wrong = event_problems(self.events, {job.job_id: job.arrival_s for job in self.jobs})
        if wrong:
            raise TraceError(
                f"trace {self.name}: {event.kind} at {event.time_s:.10g} s"
                f" ({event.job_id or list(event.slots)}): {fact}; correct or remove it"
                for event, fact in wrong
            )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of jobs and events as text: one line each, every field in order.

        Name, source and history are left out, so equal jobs have equal digests. A whole number and
        the equal float count as the same.
        """
        digest = hashlib.sha256("\t".join(_FIELDS).encode())
        for job in self.jobs:
            digest.update(("\n" + "\t".join(map(_text, _values(job)))).encode())
            for name, default in _DEFAULTS.items():
                value = getattr(job, name)
                if value != default:
                    digest.update(f"\t{name}={_text(value)}".encode())
        for event in self.events:
            values = (event.time_s, event.kind, event.slots, event.job_id)
            digest.update(("\nevent\t" + "\t".join(map(_text, values))).encode())
        return digest.hexdigest()

    @property
    def span_s(self) -> float:
        """Seconds from the first to the last submission."""
        return self.jobs[-1].arrival_s - self.jobs[0].arrival_s

    @property
    def end_s(self) -> float:
        """Latest end of a job if every job started on arrival, seconds."""
        return max(job.arrival_s + (job.duration_s or 0.0) for job in self.jobs)

    def step(self, note: str, jobs: Iterable[JobSpec], generated: Iterable[str] = ()) -> Trace:
        """Return the trace with these jobs, sorted, and the note added to its history.

        Args:
            note: description of the change, with its numbers, for the manifest.
            jobs: the jobs that are left, changed or not, in any order.
            generated: fields that the step made up.

        Raises:
            TraceError: no job is left, or the trace has events, which may no longer fit.
        """
        if self.events:
            raise TraceError(
                [
                    f"{note.partition(':')[0]} changes the jobs of a trace that has events"
                    " already; put the transforms that add events last"
                ]
            )
        return replace(
            self,
            jobs=tuple(sorted(jobs, key=attrgetter("order"))),
            generated=self.generated.union(generated),
            history=(*self.history, note),
        )

    def with_events(
        self, note: str, events: Iterable[TraceEvent], *, are_generated: bool = True
    ) -> Trace:
        """Return the trace with these events added and the note in its history.

        Raises:
            TraceError: an event cannot happen.
        """
        return replace(
            self,
            events=in_order((*self.events, *events)),
            generated=self.generated.union(["events"] if are_generated else []),
            history=(*self.history, note),
        )


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return repr(float(value))
    return repr(value.value) if hasattr(value, "value") else repr(value)

"""Earliest deadline first with admission control."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from sortedcontainers import SortedList

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.event import EventKind
from harness.contracts.job import DeadlineKind
from harness.contracts.scheduler import Knowledge
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import gang_slots, least_slots
from systems.schedulers.common.news import touched
from systems.schedulers.common.sizes import counts_within, useful_counts
from systems.schedulers.edf import Edf
from systems.schedulers.shares.edf_forecast import Runner, ends_s

_ROUNDING = 1e-9
"""Relative rounding error of times, which are sums."""


@dataclass(frozen=True, slots=True)
class _Admitted:
    """Job that was admitted, so that its deadline has to be met."""

    order: tuple[float, float, str]
    counts: tuple[int, ...]
    rates: tuple[float, ...]


class EdfAdmission:
    """Preemptive EDF that admits a job only if it causes no missed deadline.

    At an arrival, EDF is simulated to the end of all admitted jobs with a deadline, with the new
    job and without any other. The job is refused if its own deadline would be missed, or a deadline
    that would be met without the job. A job with a soft deadline is admitted anyway and comes last,
    as jobs without a deadline do.

    Source: EDF + Admission Control of Gu et al., "ElasticFlow", ASPLOS 2023, section 6.4, which
    describes it in one sentence. All of the above is chosen here; the allocation is that of
    ``Edf``. The forecast leaves out the cost of changes of slots, except for ``margin_s``.

    Checked: ``described``; its forecasts come true if changes cost nothing.
    """

    checked: ClassVar[str] = "described"
    needs = frozenset({Knowledge.DEADLINE, Knowledge.REMAINING_WORK, Knowledge.THROUGHPUT})
    wants_progress = False

    def __init__(self, elastic: bool = True, margin_s: float = 0.0) -> None:
        """Start without any job.

        Args:
            elastic: size jobs by their throughput curve; otherwise each gets its request.
            margin_s: deadlines count as missed this many seconds earlier, to allow for the cost of
                changes.
        """
        if not 0.0 <= margin_s < math.inf:
            raise ValueError(f"margin_s is {margin_s}; give seconds, at least 0")
        self._edf = Edf(preemptive=True, elastic=elastic)
        self.requires = self._edf.requires
        self._elastic = elastic
        self._margin_s = margin_s
        self._admitted: dict[str, _Admitted] = {}
        self._order: SortedList[tuple[float, float, str]] = SortedList()

    def decide(self, view: ClusterView) -> Decision:
        """Admit or refuse the arrivals; the rest is EDF."""
        refusals: dict[str, Grant | Suspend | Refuse] = {}
        demoted: dict[str, JobView] = {}
        for job_id in touched(view):
            if job_id not in view.jobs:
                self._forget(job_id)
        for event in view.news:
            job = view.jobs.get(event.job_id)
            if event.kind is not EventKind.ARRIVAL or job is None or job.spec.deadline_s is None:
                continue
            if least_slots(job.spec) > view.cluster.num_slots or self._admit(view, job):
                continue  # EDF itself refuses a job that the cluster cannot hold
            if job.spec.deadline_kind is DeadlineKind.HARD:
                refusals[job.job_id] = Refuse(
                    "its deadline, or one of those admitted before it, would be missed under EDF"
                )
            else:
                spec = replace(job.spec, deadline_s=None, deadline_kind=DeadlineKind.NONE)
                demoted[job.job_id] = replace(job, spec=spec)
        news = [event for event in view.news if event.job_id not in refusals]
        shown = replace(view, news=news, jobs=ChainMap(demoted, view.jobs))  # type: ignore[arg-type]
        decision = self._edf.decide(shown)
        return Decision(refusals | dict(decision.changes), decision.wake_s)

    def _admit(self, view: ClusterView, job: JobView) -> bool:
        """Return whether all deadlines are kept with this job; if so, admit it."""
        spec = job.spec
        assert spec.deadline_s is not None, "called only for jobs with a deadline"
        assert job.throughput is not None, "remaining work is declared in ``needs``"
        num_slots = view.cluster.num_slots
        if self._elastic:
            counts = useful_counts(job.throughput, counts_within(spec, num_slots))
        else:
            counts = [gang_slots(spec)]
        order = (spec.deadline_s, *spec.order)
        rates = tuple(job.throughput.samples_per_s(count) for count in counts)
        self._admitted[spec.job_id] = _Admitted(order, tuple(counts), rates)
        self._order.add(order)
        missed = self._missed(view, self._order)
        if missed:
            others = [other for other in self._order if other != order]
            if missed - self._missed(view, others):
                self._forget(spec.job_id)
                return False
        return True

    def _missed(self, view: ClusterView, orders: Iterable[tuple[float, float, str]]) -> set[str]:
        """Return the jobs that would miss their deadlines if there were no others."""
        orders = list(orders)
        runners = []
        for *_, job_id in orders:
            admitted = self._admitted[job_id]
            left = view.jobs[job_id].remaining_samples(view.time_s)
            runners.append(Runner(admitted.counts, admitted.rates, left))
        ends = ends_s(runners, view.num_usable, view.time_s)
        return {
            job_id
            for (deadline_s, _, job_id), end_s in zip(orders, ends, strict=True)
            if end_s > deadline_s * (1.0 + _ROUNDING) - self._margin_s
        }

    def _forget(self, job_id: str) -> None:
        admitted = self._admitted.pop(job_id, None)
        if admitted is not None:
            self._order.remove(admitted.order)

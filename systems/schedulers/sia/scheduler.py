"""Sia: the best assignment of jobs to configurations of device types, every round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from sortedcontainers import SortedDict

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import least_slots, refuse_misfit
from systems.schedulers.common.news import refusals
from systems.schedulers.common.rounds import Rounds
from systems.schedulers.sia.assignment import Row, assign
from systems.schedulers.sia.configurations import (
    Configuration,
    Rule,
    cluster_counts,
    goodputs,
    job_configurations,
)


@dataclass(slots=True)
class _Job:
    """Record of one job."""

    goodputs: dict[Configuration, float]
    """Row of the goodput matrix, normalised."""
    least: int
    """Slots of its smallest configuration."""
    most_so_far: int = 0
    """Largest number of slots that it has been given."""
    num_grants: int = 0
    going_to: Configuration | None = None
    """Configuration that the job gets as soon as it has left the slots of another type."""


class Sia:
    """Sia: every ``round_s`` seconds an integer program assigns each job one configuration, or
    none.

    A configuration is a number of slots of one device type: 1, 2, 4, ... within a host, then whole
    hosts. A job's goodput on each is divided by its smallest goodput and multiplied by its least
    size. The goodput of every configuration except the present one is multiplied by the restart
    factor ``(T - N S) / (T + S)``: age T, restarts N, cost of a restart S. The program maximises
    the sum of ``queue_penalty - goodput ** fairness_power`` over the jobs that get slots, with a
    plus instead of the minus if the power is above 0. This is the paper's objective minus a
    constant; HiGHS solves it exactly. A job begins on its smallest size and gets at most ``growth``
    times its largest number of slots so far. Jobs that are not elastic have their request, on any
    type (the paper's rigid jobs). Jobs with a change in flight keep what they have.

    ``round_s``: seconds (theirs: 60). ``fairness_power``: no unit; below 0 favours fairness, above
    0 speed (theirs: -0.5). ``queue_penalty``: penalty of a job without slots, in units of a goodput
    to that power (theirs: 1.1). ``restart_s``: the S above, seconds (theirs: 25 to 250 by program,
    30 for a program that was not measured). ``growth``: a factor; None: no limit (theirs: 2).

    Source: Jayaram Subramanya, Arfeen, Lin, Qiao, Jia and Ganger, "Sia: Heterogeneity-aware,
    goodput-optimized ML-cluster scheduling", SOSP 2023, sections 3.3 and 3.4, and for values the
    authors' simulator too. Differs: the global batch stays the job's own, so that statistical
    efficiency is a constant and goodput is throughput; speeds are the profile's on every type from
    the start (the paper learns them); hybrid-parallel jobs and reservations are left out; the
    placement chooses which slots form a grant, and moves no other job. A job that changes its type
    is suspended and resumes on the other, and so counts as preempted; every ``reaction_s`` seconds
    the scheduler checks whether it can resume.

    A job that fits no type is refused. A job that lost some of its workers continues with the
    others until the next round; then every configuration counts as a restart.

    Checked: ``described``; the integer program against every assignment of small cases, the goodput
    matrix and the restart factor by hand.

    Raises:
        ValueError: an option is out of its range.
    """

    checked: ClassVar[str] = "described"
    needs: frozenset[Knowledge] = frozenset({Knowledge.THROUGHPUT})
    requires: frozenset[Requirement] = frozenset({Requirement.RESCALE, Requirement.SUSPEND})
    wants_progress = False

    def __init__(
        self,
        round_s: float = 60.0,
        fairness_power: float = -0.5,
        queue_penalty: float = 1.1,
        restart_s: float = 30.0,
        growth: float | None = 2.0,
        reaction_s: float = 1.0,
    ) -> None:
        _check(fairness_power, queue_penalty, restart_s, growth, reaction_s)
        self._rounds = Rounds(round_s, "round_s")
        self._round_at_s = -math.inf
        self._rule = Rule(fairness_power, queue_penalty, restart_s)
        self._growth = math.inf if growth is None else growth
        self._reaction_s = reaction_s
        self._counts: dict[str, tuple[int, ...]] = {}
        self._jobs: SortedDict[tuple[float, str], _Job] = SortedDict()
        self._orders: dict[str, tuple[float, str]] = {}

    def decide(self, view: ClusterView) -> Decision:
        """Update the jobs from the news. In a round, assign again; otherwise resume jobs that have
        left their old type."""
        if not self._counts:
            self._counts = cluster_counts(view.cluster)
        # A round begins only once, even if several decisions are requested at that time.
        is_round = self._rounds.begins(view) and view.time_s > self._round_at_s
        changes = refusals(view, self._look_again)
        if not self._jobs:
            return Decision(changes)
        if is_round:
            self._round_at_s = view.time_s
            changes |= self._assign(view)
        else:
            changes |= self._resume(view)
        wake_s = self._rounds.wake(view.time_s)
        if any(job.going_to is not None for job in self._jobs.values()):
            wake_s = min(wake_s, view.time_s + self._reaction_s)
        return Decision(changes, wake_s)

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        job = view.jobs.get(job_id)
        if job is None:
            order = self._orders.pop(job_id, None)
            if order is not None:
                del self._jobs[order]
            return None
        if job_id in self._orders:
            return None
        spec, curve = job.spec, job.throughput
        assert curve is not None, "throughput is declared in ``needs``"
        refusal = refuse_misfit(spec, least_slots(spec), view.cluster)
        if refusal is not None:
            return refusal
        totals = _slots_by_type(view, usable=False)
        row = goodputs(curve, job_configurations(spec, self._counts, totals))
        if not row:
            return Refuse(
                f"the job needs {least_slots(spec)} slots of one device type with a known speed of"
                f" {spec.workload!r}, which cluster {view.cluster.name!r} has not; lower its"
                " min_slots, or choose another cluster or profile"
            )
        self._orders[job_id] = spec.order
        self._jobs[spec.order] = _Job(row, min(one.num_slots for one in row))
        return None

    def _assign(self, view: ClusterView) -> dict[str, Grant | Suspend]:
        """Assign configurations to all jobs for a new round; return the changes."""
        totals = _slots_by_type(view, usable=True)
        present: dict[str, Configuration | None] = {}
        rows = []
        for (_, job_id), known in self._jobs.items():
            job = view.jobs[job_id]
            now = present[job_id] = _configuration(view, job)
            if now is not None and _is_busy(view, job) and totals[now.device_type] >= now.num_slots:
                totals[now.device_type] -= now.num_slots
                continue
            rows.append(Row(job_id, self._values(view, job, known, now)))
        chosen = assign(rows, totals)
        suspended: dict[str, Grant | Suspend] = {}
        shrunk: dict[str, Grant | Suspend] = {}
        begun: dict[str, Grant | Suspend] = {}
        grown: dict[str, Grant | Suspend] = {}
        for row in rows:
            job_id, now, then = row.job_id, present[row.job_id], chosen.get(row.job_id)
            known = self._jobs[self._orders[job_id]]
            known.going_to = None
            if now == then:
                continue
            if now is None:
                assert then is not None
                # While the job still holds slots of another type, a new grant could be given these
                # slots.
                if _held_type(view, view.jobs[job_id]) in (None, then.device_type):
                    begun[job_id] = self._grant(known, then)
                else:
                    known.going_to = then
            elif then is None or then.device_type != now.device_type:
                suspended[job_id] = Suspend()
                known.going_to = then
            else:
                side = grown if then.num_slots > now.num_slots else shrunk
                side[job_id] = self._grant(known, then)
        return suspended | shrunk | begun | grown

    def _values(
        self, view: ClusterView, job: JobView, known: _Job, now: Configuration | None
    ) -> dict[Configuration, float]:
        """Return the job's row of the program."""
        most = max(known.least, self._growth * known.most_so_far)
        factor = 1.0
        if now is not None:
            age_s = view.time_s - job.spec.arrival_s
            factor = self._rule.restart_factor(age_s, known.num_grants - 1)
        return {
            one: self._rule.value(goodput if one == now else goodput * factor)
            for one, goodput in known.goodputs.items()
            if one.num_slots <= most or one == now
        }

    def _resume(self, view: ClusterView) -> dict[str, Grant]:
        """Start jobs that have left their old slots on the slots that they were assigned."""
        resumed = {}
        free = view.num_free
        for (_, job_id), known in self._jobs.items():
            job, then = view.jobs[job_id], known.going_to
            if then is None or (job.grant is None and job.slots):
                continue
            # If the suspension failed, or slots went down since, the next round decides.
            known.going_to = None
            if job.grant is None and then.num_slots <= free:
                free -= then.num_slots
                resumed[job_id] = self._grant(known, then)
        return resumed

    def _grant(self, known: _Job, then: Configuration) -> Grant:
        known.num_grants += 1
        known.most_so_far = max(known.most_so_far, then.num_slots)
        return Grant(then.num_slots, device_type=then.device_type)


def _slots_by_type(view: ClusterView, *, usable: bool) -> dict[str, int]:
    """Return the slots of each device type: all, or those that are up."""
    totals = dict.fromkeys(view.cluster.device_types, 0)
    for slot in view.cluster.slots:
        if not (usable and slot.slot_id in view.down_slots):
            totals[slot.device_type] += 1
    return totals


def _held_type(view: ClusterView, job: JobView) -> str | None:
    return view.cluster.slots[job.slots[0]].device_type if job.slots else None


def _configuration(view: ClusterView, job: JobView) -> Configuration | None:
    """Return the configuration that a job is granted at present; None: nothing, or an unknown type.

    The type is that of the slots it holds, if any, and otherwise that of the grant.
    """
    if job.grant is None:
        return None
    device_type = _held_type(view, job) or job.grant.device_type
    if device_type is None:  # the grant was restored after a failed change
        return None
    return Configuration(device_type, job.grant.num_slots)


def _is_busy(view: ClusterView, job: JobView) -> bool:
    """Return whether the job is still changing to its last grant."""
    assert job.grant is not None
    return job.job_id in view.in_flight and len(job.slots) >= job.grant.num_slots


def _check(
    fairness_power: float,
    queue_penalty: float,
    restart_s: float,
    growth: float | None,
    reaction_s: float,
) -> None:
    problems = []
    if fairness_power == 0 or not math.isfinite(fairness_power):
        problems.append(f"fairness_power is {fairness_power}; give a number other than 0, as -0.5")
    if not 0 < queue_penalty < math.inf:
        problems.append(f"queue_penalty is {queue_penalty}; give a number above 0, as 1.1")
    if not 0 <= restart_s < math.inf:
        problems.append(f"restart_s is {restart_s}; give seconds from 0 on, as 30")
    if growth is not None and not growth > 1:
        problems.append(f"growth is {growth}; give a factor above 1, as 2, or null for no limit")
    if not 0 < reaction_s < math.inf:
        problems.append(f"reaction_s is {reaction_s}; give seconds above 0, as 1")
    if problems:
        raise ValueError("\n".join(problems))

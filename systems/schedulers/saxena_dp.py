"""Autoscaler of Saxena et al.: slots and batches by dynamic programming."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

import numpy as np
from sortedcontainers import SortedList

from harness.cluster import Cluster
from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.event import EventKind
from harness.contracts.job import JobSpec
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.decision_times import DecisionTimes, Trigger
from systems.schedulers.common.gang import refuse_misfit
from systems.schedulers.common.news import refusals
from systems.schedulers.common.scalability import AllReduce, Scalability, ScalabilityAnalyser
from systems.schedulers.common.slot_split import best_split

_Order = tuple[float, str]


@dataclass(slots=True)
class _Job:
    """Job that executes or waits."""

    order: _Order
    scalability: Scalability
    grant: Grant | None = None
    """Grant of the last decision; None: the job waits."""
    was_admitted: bool = False

    @property
    def fewest(self) -> int:
        return self.scalability.worth.fewest


class SaxenaDp:
    """Saxena et al.: running jobs share the slots so that the sum of their scaling factors is
    greatest.

    A decision is made at the times of ``trigger``, if jobs arrived, ended or lost slots. First, new
    jobs join the running jobs in order of arrival, while all jobs can have the fewest slots on
    which they run. Then a dynamic program (``best_split``) gives every running job its slots, and
    the scalability analyser its global batch. No running job is suspended. Newcomers that do not
    fit wait (``newcomers=queue``) or are refused (``drop``).

    ``batch``: ``best``, the batch in the job's range that scales best on its slots (the paper's
    elastic algorithm); ``max``, ``min``, ``random``: a fixed batch of its range, the baselines
    Max-BS, Min-BS and Random-BS, which share slots in the same way. A random batch is drawn once
    for each job, uniformly, from ``seed`` and the job's id, so that no other job changes it.
    ``trigger``, ``period_s``, ``ended_share``: see ``DecisionTimes`` (paper: every 10 to 15
    minutes, or once 5% of the jobs have ended; its simulator decides at every event).
    ``newcomers``: ``queue`` or ``drop`` (paper: both).
    ``on_infeasible``: ``stop`` at the first newcomer that does not fit, as in the text, or ``skip``
    it, as the pseudocode can be read.
    ``k_max``, ``num_probes``, ``slot_batch``: see ``ScalabilityAnalyser`` (paper: 10; not stated;
    32 samples for one category). ``allreduce_s``, ``weights``: see ``AllReduce``.

    Source: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020,
    sections III-B to III-E, figure 4 with its mistakes corrected: departures alone also lead to a
    decision, no infeasible allocation is sent, and no new job is left out by a counting mistake. A
    set is feasible exactly when the fewest slots of its jobs fit, so that one dynamic program per
    decision is enough. The paper leaves these open; chosen here:
    - A job that no state of the cluster can serve is refused at once.
    - A job that lost its slots waits again, in order of arrival, and is not dropped.
    - Slots that went down may leave too few for the fewest of all jobs. Then allocations stay as
      they are, but promises to jobs without any slots are taken back, the last admitted first.

    Checked: ``compared``: decisions with a version that fills the whole table of algorithm 1 for
    every newcomer (``tests/schedulers/naive_saxena.py``), splits with all splits; the example of
    section IV-D as well.
    """

    checked: ClassVar[str] = "compared"

    needs: frozenset[Knowledge] = frozenset({Knowledge.THROUGHPUT})
    requires: frozenset[Requirement] = frozenset({Requirement.RESCALE, Requirement.CHANGE_BATCH})
    wants_progress = False
    one_device_type: ClassVar[bool] = True
    """True: an autoscaler's devices are all alike (section II-D)."""

    def __init__(
        self,
        batch: Literal["best", "max", "min", "random"] = "best",
        trigger: Trigger = "period",
        period_s: float = 600.0,
        ended_share: float = 0.05,
        newcomers: Literal["queue", "drop"] = "queue",
        on_infeasible: Literal["stop", "skip"] = "stop",
        k_max: int = 10,
        num_probes: int = 8,
        slot_batch: int | Mapping[str, int] | None = None,
        allreduce_s: Mapping[int, Sequence[float]] | None = None,
        weights: Mapping[str, int] | None = None,
        seed: int = 0,
    ) -> None:
        sizes = slot_batch.values() if isinstance(slot_batch, Mapping) else [slot_batch]
        problems = [
            text
            for wrong, text in (
                (not period_s > 0, f"period_s is {period_s}; give seconds above 0"),
                (not 0 < ended_share <= 1, f"ended_share is {ended_share}; give above 0 up to 1"),
                (k_max < 1, f"k_max is {k_max}; a job needs at least 1 slot"),
                (num_probes < 1, f"num_probes is {num_probes}; measure at least 1 batch"),
                (
                    any(size is not None and size < 1 for size in sizes),
                    f"slot_batch is {slot_batch}; give at least 1 sample",
                ),
            )
            if wrong
        ]
        try:
            allreduce = AllReduce(allreduce_s or {}, weights or {})
        except ValueError as error:
            problems.append(str(error))
        if problems:
            raise ValueError("\n".join(problems))
        self._batch = batch
        self._drops = newcomers == "drop"
        self._skips = on_infeasible == "skip"
        self._seed = seed
        self._times = DecisionTimes(trigger, period_s, ended_share)
        self._analyser = ScalabilityAnalyser(k_max, num_probes, slot_batch, allreduce)
        self._jobs: dict[str, _Job] = {}
        self._executing: dict[str, _Job] = {}
        """Jobs that execute, in order of admission."""
        self._arrived: SortedList[_Order] = SortedList()
        """Jobs that wait, in order of arrival."""
        self._num_ended = 0
        self._num_running = 0
        """Number of jobs executing after the last decision."""
        self._is_pending = False

    def decide(self, view: ClusterView) -> Decision:
        """Record the news; decide if there are news and a decision is due."""
        if any(event.kind in (EventKind.SLOT_DOWN, EventKind.SLOT_UP) for event in view.news):
            self._is_pending = True
        changes = refusals(view, self._look_again)
        if not self._is_pending:
            return Decision(changes)
        due_s = self._times.due_s(view, self._num_ended, self._num_running)
        if due_s > view.time_s:
            return Decision(changes, due_s)
        changes |= self._withdraw(view)
        changes |= self._admit(view)
        changes |= self._share(view)
        self._num_ended, self._num_running = 0, len(self._executing)
        self._is_pending = False
        return Decision(changes)

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Update one job from the view."""
        seen = view.jobs.get(job_id)
        job = self._jobs.get(job_id)
        if seen is None:
            self._leave(job_id)
        elif job is None:
            found = self._analyse(seen, view.cluster)
            if isinstance(found, Refuse):
                return found
            job = self._jobs[job_id] = _Job(seen.spec.order, found)
            self._queue(job)
        elif seen.grant != job.grant:
            # After a failed change or the death of workers, the grant differs from the decision.
            self._is_pending = True
            if seen.grant is None:
                del self._executing[job_id]
                self._queue(job)
        return None

    def _leave(self, job_id: str) -> None:
        """Forget a job that has ended."""
        job = self._jobs.pop(job_id, None)
        if self._executing.pop(job_id, None) is not None:
            self._num_ended += 1
            self._is_pending = True
        elif job is not None:
            self._arrived.remove(job.order)

    def _queue(self, job: _Job) -> None:
        job.grant = None
        self._arrived.add(job.order)
        self._is_pending = True

    def _analyse(self, job: JobView, cluster: Cluster) -> Scalability | Refuse:
        """Return the job's scalability under this scheduler's batches, or the reason why it can
        never run."""
        assert job.throughput is not None, "throughput is declared in ``needs``"
        spec = job.spec
        low, high = spec.batch_range
        if self._batch == "max":
            low = high
        elif self._batch == "min":
            high = low
        elif self._batch == "random":
            low = high = self._drawn_batch(spec)
        found = self._analyser.analyse(spec, job.throughput, (low, high))
        if found is None:
            fits = self._analyser.largest_slot_batch(spec)
            return Refuse(
                f"a global batch of {low} does not fit the slots that the job may have, at"
                f" {fits} samples a slot; raise k_max, slot_batch or the job's max_slots"
            )
        return refuse_misfit(spec, found.worth.fewest, cluster) or found

    def _drawn_batch(self, spec: JobSpec) -> int:
        """Return a batch of the job's range that depends only on the seed and the job's id."""
        stream = [zlib.crc32(b"saxena.random_batch"), zlib.crc32(spec.job_id.encode())]
        low, high = spec.batch_range
        return int(np.random.default_rng([self._seed, *stream]).integers(low, high + 1))

    def _withdraw(self, view: ClusterView) -> dict[str, Suspend]:
        """Take back promises that became impossible when slots went down."""
        spare = self._num_spare(view)
        withdrawn: dict[str, Suspend] = {}
        for job_id, job in reversed(list(self._executing.items())):
            if spare >= 0:
                break
            if not view.jobs[job_id].slots:
                spare += job.fewest
                del self._executing[job_id]
                self._queue(job)
                withdrawn[job_id] = Suspend()
        return withdrawn

    def _num_spare(self, view: ClusterView) -> int:
        """Return the slots beyond the fewest of all jobs that execute."""
        return view.num_usable - sum(job.fewest for job in self._executing.values())

    def _admit(self, view: ClusterView) -> dict[str, Refuse]:
        """Start new jobs that fit; if new jobs are dropped, return refusals of the others."""
        spare = self._num_spare(view)
        left_out: list[_Order] = []
        while self._arrived and (self._skips or not left_out):
            order = self._arrived.pop(0)
            job = self._jobs[order[1]]
            if job.fewest > spare:
                left_out.append(order)
                continue
            spare -= job.fewest
            job.was_admitted = True
            self._executing[order[1]] = job
        self._arrived.update(left_out)
        if not self._drops:
            return {}
        dropped = [order for order in self._arrived if not self._jobs[order[1]].was_admitted]
        for order in dropped:
            self._arrived.remove(order)
            del self._jobs[order[1]]
        reason = "the slots that are left do not suffice, and newcomers=drop lets nobody wait"
        return {job_id: Refuse(reason) for _, job_id in dropped}

    def _share(self, view: ClusterView) -> dict[str, Grant]:
        """Return grants that differ from the present ones, in order of admission."""
        jobs = self._executing.values()
        shares = best_split([job.scalability.worth for job in jobs], view.num_usable)
        if shares is None:
            return {}
        changes = {}
        for (job_id, job), num_slots in zip(self._executing.items(), shares, strict=True):
            grant = _grant(num_slots, job.scalability.batch(num_slots))
            present = view.jobs[job_id].grant
            if present is not grant and present != grant:  # most grants are the same object
                changes[job_id] = grant
            job.grant = grant
        return changes


@cache
def _grant(num_slots: int, global_batch: int) -> Grant:
    """Return one shared object for equal grants, so that most comparisons are by identity."""
    return Grant(num_slots, global_batch=global_batch)

"""The one loop: event, view, decision, placement, changes.

It is the same for every scheduler and every engine. Grants are desired states: a decision
is written down at once, and the changes that lead there are given to the engine as soon as
the slots they need are really free and no other change of the job is in flight.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import immutables

from harness.cluster import Cluster
from harness.contracts.engine import (
    TRANSITIONS,
    Change,
    ChangeKind,
    Event,
    EventKind,
    JobState,
)
from harness.contracts.scheduler import (
    ClusterView,
    Decision,
    Grant,
    JobView,
    Placement,
    Refuse,
    Scheduler,
    Suspend,
)
from harness.decision_check import DecisionError, check_decision
from harness.engines.setup import OpenEngine
from harness.occupancy import Occupancy
from harness.profiles import Profile
from harness.records import DecisionRecord, RunRecords
from harness.replay_job import JobBook, ReplayJob
from harness.trace.job import JobSpec

Scaling = Literal["strong", "weak"]

DECIDING = frozenset(
    {
        EventKind.SLOT_DOWN,
        EventKind.SLOT_UP,
        EventKind.JOB_FINISHED,
        EventKind.JOB_FAILED,
        EventKind.GRANT_LOST,
        EventKind.CHANGE_FAILED,
        EventKind.ARRIVAL,
        EventKind.WAKE,
    }
)
"""Events after which the scheduler is asked. The others wait in the news of the next view;
a scheduler that sets ``wants_progress`` is also asked after PROGRESS and CHANGE_DONE."""


class ReplayError(Exception):
    """The replay cannot go on: the scheduler left jobs waiting with nothing to wait for."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is."""

    time_s: float
    num_ended: int
    num_jobs: int
    num_running: int
    num_events: int


def replay(
    *,
    jobs: Sequence[JobSpec],
    cluster: Cluster,
    scheduler: Scheduler,
    placement: Placement,
    engine: OpenEngine,
    profile: Profile,
    scaling: Scaling = "strong",
    on_progress: Callable[[Progress], None] | None = None,
) -> RunRecords:
    """Replay a trace to the end of its last job and return what happened.

    Jobs arrive on the engine's clock at their ``arrival_s``. Under ``scaling="strong"`` the
    global batch is fixed; under ``"weak"`` the batch per slot is, from the requested slots.
    A batch that the scheduler grants goes before either.

    Raises:
        DecisionError: the scheduler broke a rule (over capacity, out of a job's bounds, an
            ability the backend lacks); the text names the job and the rule.
        ReplayError: jobs are left waiting, nothing runs and nobody asked to be woken.
    """
    loop = _Replay(jobs, cluster, scheduler, placement, engine, profile, scaling)
    started = time.perf_counter()
    gc_was_on = gc.isenabled()
    gc.disable()  # millions of small frozen values without a cycle among them
    try:
        loop.run(on_progress)
    finally:
        if gc_was_on:
            gc.enable()
    records = loop.book.records
    records.facts["replay_wall_s"] = time.perf_counter() - started
    records.facts["num_events"] = float(loop.num_events)
    records.facts["num_slots"] = float(cluster.num_slots)
    engine.observe(records)
    return records


class _Replay:
    def __init__(
        self,
        jobs: Sequence[JobSpec],
        cluster: Cluster,
        scheduler: Scheduler,
        placement: Placement,
        engine: OpenEngine,
        profile: Profile,
        scaling: Scaling,
    ) -> None:
        self.cluster = cluster
        self.scheduler = scheduler
        self.placement = placement
        self.engine = engine
        self.scaling = scaling
        self.book = JobBook(cluster, profile, scheduler.needs)
        self.occupancy = Occupancy(cluster)
        self.arrivals = sorted(jobs, key=lambda job: job.order)
        self.next_arrival = 0
        self.wake_s = math.inf
        self.views: immutables.Map[str, JobView] = immutables.Map()
        self.in_flight: immutables.Map[str, tuple[int, ...]] = immutables.Map()
        self.dirty: dict[str, ReplayJob] = {}
        self.unmet: dict[str, ReplayJob] = {}
        """Jobs whose grant is not reached and that have no change in flight, in the order
        of the decisions."""
        self.news: list[Event] = []
        self.num_granted = 0
        self.num_events = 0
        self.num_changes = 0
        self.deciding = DECIDING
        if getattr(scheduler, "wants_progress", False):
            self.deciding = DECIDING | {EventKind.PROGRESS, EventKind.CHANGE_DONE}

    def run(self, on_progress: Callable[[Progress], None] | None) -> None:
        """Until every job has ended."""
        num_jobs = len(self.arrivals)
        next_report = 0.0
        while self.book.num_ended < num_jobs:
            events = self._next_events()
            self.num_events += len(events)
            if self._handle(events):
                self._decide()
            self._reconcile()
            if on_progress is not None and (now := time.perf_counter()) >= next_report:
                next_report = now + 0.2
                on_progress(
                    Progress(
                        self.engine.now(),
                        self.book.num_ended,
                        num_jobs,
                        len(self.book.live),
                        self.num_events,
                    )
                )

    def _next_events(self) -> list[Event]:
        """All events of the next instant, in the documented order."""
        arrivals = self.arrivals
        next_arrival_s = math.inf
        if self.next_arrival < len(arrivals):
            next_arrival_s = arrivals[self.next_arrival].arrival_s
        until_s = min(next_arrival_s, self.wake_s)
        try:
            events = self.engine.wait(until_s)
        except RuntimeError as error:
            waiting = sorted(self.book.live)
            raise ReplayError(
                f"{len(waiting)} jobs wait for ever (first: {', '.join(waiting[:5])}): nothing"
                " runs, nothing is due and the scheduler asked for no wake-up. Give the cluster"
                " more slots, or let the scheduler refuse what it cannot serve."
            ) from error
        now_s = self.engine.now()
        while self.next_arrival < len(arrivals):
            job = arrivals[self.next_arrival]
            if job.arrival_s > now_s:
                break
            self.next_arrival += 1
            self._arrive(job, now_s)
            events.append(Event(now_s, EventKind.ARRIVAL, job.job_id))
        if self.wake_s <= now_s:
            self.wake_s = math.inf
            events.append(Event(now_s, EventKind.WAKE))
        if len(events) > 1:
            events.sort(key=self._event_order)
        return events

    def _event_order(self, event: Event) -> tuple[int, float, str]:
        job = self.book.live.get(event.job_id)
        return event.kind, job.spec.arrival_s if job else 0.0, event.job_id

    def _arrive(self, spec: JobSpec, now_s: float) -> None:
        self._touch(self.book.arrive(spec, now_s))

    def _touch(self, job: ReplayJob) -> None:
        self.dirty[job.spec.job_id] = job

    def _handle(self, events: Sequence[Event]) -> bool:
        """Bring the books up to date; True if the scheduler is to be asked."""
        asked = False
        for event in events:
            self.news.append(event)
            asked = asked or event.kind in self.deciding
            self._handle_one(event)
        return asked

    def _handle_one(self, event: Event) -> None:
        kind = event.kind
        if kind in (EventKind.ARRIVAL, EventKind.WAKE, EventKind.CHANGE_ACCEPTED):
            return
        if kind is EventKind.SLOT_DOWN or kind is EventKind.SLOT_UP:
            assert event.slot is not None
            mark = (
                self.occupancy.mark_down
                if kind is EventKind.SLOT_DOWN
                else (self.occupancy.mark_up)
            )
            mark(event.slot)
            return
        job = self.book.live.get(event.job_id)
        if job is None:
            return  # its end overtook this event
        self._touch(job)
        self.book.settle(job, event.time_s)
        if kind is EventKind.PROGRESS:
            job.samples_done = event.samples_done
            job.rate = event.samples_per_s
        elif kind is EventKind.CHANGE_DONE:
            self._change_done(job, event)
        elif kind is EventKind.CHANGE_RETRY:
            self._change_dropped(job, event, "retry")
        elif kind is EventKind.CHANGE_FAILED:
            self._change_dropped(job, event, "failed")
            self._set_target(job, job.reached)
            self.unmet.pop(job.spec.job_id, None)  # what it has is what it is granted again
        elif kind is EventKind.GRANT_LOST:
            self._close_change(job, event, "failed")
            job.samples_done = event.samples_done
            self._hold(job, (), event.time_s)
            job.rate = 0.0
            job.reached = None
            self._set_target(job, None)
            self.book.move(job, JobState.SUSPENDED if job.has_run else JobState.PENDING)
        else:
            state = JobState.FINISHED if kind is EventKind.JOB_FINISHED else JobState.FAILED
            job.samples_done = event.samples_done
            self._end(job, state, event.time_s, event.reason)

    def _change_done(self, job: ReplayJob, event: Event) -> None:
        change = job.change
        assert change is not None
        assert change.change_id == event.change_id
        self._close_change(job, event, "done")
        job.samples_done = event.samples_done
        self.book.cut_grant(job, event.time_s)
        self._hold(job, change.slots, event.time_s)
        job.rate = event.samples_per_s
        job.has_run = True
        job.reached = (
            None
            if change.kind is ChangeKind.SUSPEND
            else Grant(len(change.slots), global_batch=change.global_batch)
        )
        self.book.move(
            job, JobState.SUSPENDED if change.kind is ChangeKind.SUSPEND else JobState.RUNNING
        )
        if not self._is_met(job):
            self.unmet[job.spec.job_id] = job

    def _change_dropped(self, job: ReplayJob, event: Event, outcome: str) -> None:
        """A change did not happen: the job is where it was before it."""
        change = job.change
        assert change is not None
        self._close_change(job, event, outcome)
        self._hold(job, change.previous_slots, event.time_s)
        before = JobState.RUNNING
        if not change.previous_slots:
            before = JobState.SUSPENDED if job.has_run else JobState.PENDING
        if job.state is not before:
            self.book.move(job, before)
        if not self._is_met(job):
            self.unmet[job.spec.job_id] = job

    def _close_change(self, job: ReplayJob, event: Event, outcome: str) -> None:
        if job.change is None:
            return
        self.book.close_change(job, event, outcome)
        if job.spec.job_id in self.in_flight:
            self.in_flight = self.in_flight.delete(job.spec.job_id)

    def _end(self, job: ReplayJob, state: JobState, time_s: float, reason: str) -> None:
        if job.change is not None:
            end = Event(time_s, EventKind.CHANGE_FAILED, job.spec.job_id, reason="the job ended")
            self._close_change(job, end, "overtaken")
        self._hold(job, (), time_s)
        self._set_target(job, None)
        self.unmet.pop(job.spec.job_id, None)
        self.book.end(job, state, time_s, reason)

    def _hold(self, job: ReplayJob, slots: tuple[int, ...], time_s: float) -> None:
        """Make these the slots the job holds; the books note when that changes."""
        held = job.slots
        if slots == held:
            return
        if not held:
            self.occupancy.take(slots)
        elif not slots:
            self.occupancy.release(held)
        else:
            self.occupancy.release([slot for slot in held if slot not in slots])
            self.occupancy.take([slot for slot in slots if slot not in held])
        self.book.hold(job, slots, time_s)

    def _set_target(self, job: ReplayJob, target: Grant | None) -> None:
        before = job.target.num_slots if job.target else 0
        self.num_granted += (target.num_slots if target else 0) - before
        job.target = target

    def _view(self) -> ClusterView:
        live = self.book.live
        with self.views.mutate() as views:
            for job_id, job in self.dirty.items():
                if job_id in live:
                    views[job_id] = job.view()
                elif job_id in views:
                    del views[job_id]
            self.views = views.finish()
        self.dirty.clear()
        news, self.news = tuple(self.news), []
        return ClusterView(
            time_s=self.engine.now(),
            cluster=self.cluster,
            jobs=self.views,
            news=news,
            down_slots=self.occupancy.down,
            num_granted=self.num_granted,
            in_flight=self.in_flight,
        )

    def _decide(self) -> None:
        view = self._view()
        started = time.perf_counter_ns()
        decision = self.scheduler.decide(view)
        records = self.book.records
        records.latencies_us.append((time.perf_counter_ns() - started) // 1000)
        if decision.wake_s is not None:
            if decision.wake_s <= view.time_s:
                raise DecisionError(
                    f"{type(self.scheduler).__name__} asks to be woken at {decision.wake_s} s,"
                    f" but it is {view.time_s} s already"
                )
            self.wake_s = decision.wake_s
        else:
            self.wake_s = math.inf
        if decision.changes:
            check_decision(decision, view, self.engine.abilities, type(self.scheduler).__name__)
            records.decisions.append(
                DecisionRecord(view.time_s, len(view.news), len(decision.changes))
            )
            self._write_down(decision, view.time_s)

    def _write_down(self, decision: Decision, now_s: float) -> None:
        for job_id, action in decision.changes.items():
            job = self.book.live[job_id]
            self._touch(job)
            if isinstance(action, Refuse):
                self.book.settle(job, now_s)
                self._end(job, JobState.REFUSED, now_s, action.reason)
                continue
            if isinstance(action, Suspend):
                if job.target is not None and job.slots:
                    job.num_preemptions += 1
                self._set_target(job, None)
            else:
                self._set_target(job, action)
            self.unmet.pop(job_id, None)
            if job.change is None and not self._is_met(job):
                self.unmet[job_id] = job

    def _is_met(self, job: ReplayJob) -> bool:
        target, reached = job.target, job.reached
        if target is None or reached is None:
            return target is reached
        return (
            target.num_slots == reached.num_slots
            and (target.slots is None or set(target.slots) == set(job.slots))
            and self._batch(job, target) == reached.global_batch
        )

    def _batch(self, job: ReplayJob, grant: Grant) -> int:
        """Global batch of a grant: the scheduler's choice, else by the scaling rule."""
        spec = job.spec
        if grant.global_batch is not None:
            return grant.global_batch
        if self.scaling == "strong":
            return spec.global_batch
        per_slot = max(1, round(spec.global_batch / spec.requested_slots))
        return per_slot * grant.num_slots

    def _reconcile(self) -> None:
        """Give the engine every change that can begin now, until none can."""
        while self.unmet:
            begun: dict[str, Change] = {}
            for job_id, job in list(self.unmet.items()):
                change = self._next_change(job)
                if change is not None:
                    del self.unmet[job_id]
                    begun[job_id] = change
            if not begun:
                return
            asked = self._handle(self.engine.apply(list(begun.values())))
            self._note_in_flight(begun)
            if asked:
                self._decide()

    def _note_in_flight(self, begun: Mapping[str, Change]) -> None:
        """Show the changes that were not done at once; free ones never appear."""
        for job_id, change in begun.items():
            job = self.book.live.get(job_id)
            if job is not None and job.change is change:
                self.in_flight = self.in_flight.set(job_id, job.slots)

    def _next_change(self, job: ReplayJob) -> Change | None:
        """The change that leads to the job's grant, with its slots taken, or None."""
        target, held = job.target, job.slots
        if target is None:
            return self._begin(job, ChangeKind.SUSPEND, (), JobState.SUSPENDING)
        slots = self._slots_for(target, held)
        if slots is None:
            return None
        if not held:
            kind = ChangeKind.RESUME if job.has_run else ChangeKind.START
            return self._begin(job, kind, slots, JobState.STARTING)
        same_count = len(slots) == len(held) and slots != held
        kind = ChangeKind.MIGRATE if same_count else ChangeKind.RESCALE
        return self._begin(job, kind, slots, JobState.RESCALING)

    def _slots_for(self, target: Grant, held: tuple[int, ...]) -> tuple[int, ...] | None:
        if target.slots is not None:
            kept = tuple(slot for slot in held if slot in target.slots)
            added = tuple(slot for slot in target.slots if slot not in held)
            return kept + added if self.occupancy.is_free(added) else None
        if target.num_slots == len(held):
            return held
        if target.num_slots - len(held) > self.occupancy.num_free:
            return None
        return self.placement.place(
            target.num_slots, self.cluster, self.occupancy, held, target.device_type
        )

    def _begin(
        self, job: ReplayJob, kind: ChangeKind, slots: tuple[int, ...], state: JobState
    ) -> Change:
        now_s = self.engine.now()
        self._touch(job)
        self.book.settle(job, now_s)
        self.book.cut_grant(job, now_s)
        self.num_changes += 1
        change = Change(
            change_id=self.num_changes,
            kind=kind,
            job=job.spec,
            previous_slots=job.slots,
            slots=slots,
            global_batch=self._batch(job, job.target) if job.target else job.spec.global_batch,
            virtual_workers=job.target.virtual_workers if job.target else None,
        )
        added = tuple(slot for slot in slots if slot not in job.slots)
        self._hold(job, job.slots + added, now_s)
        self.book.open_change(job, change, now_s)
        self.book.move(job, state)
        return change


assert all(state in TRANSITIONS for state in JobState)

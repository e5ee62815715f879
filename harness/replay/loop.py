"""Main loop of the replay: event, view, decision, placement, changes.

The loop is the same for every scheduler and every engine. Grants are desired states: a decision is
recorded at once. The engine gets each change as soon as the slots that it needs are really free and
the job has no other change in flight.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import immutables

from harness.cluster import Cluster
from harness.contracts.decision import Decision, Refuse, Suspend
from harness.contracts.event import Event, EventKind
from harness.contracts.job import JobSpec
from harness.contracts.job_state import JobState
from harness.contracts.placement import Placement
from harness.contracts.scheduler import Scheduler
from harness.contracts.view import ClusterView, JobView
from harness.engines.setup import OpenEngine
from harness.profiles import Profile
from harness.replay.decision_check import DecisionError, check_decision
from harness.replay.endless import IdleWakes, ReplayError, waiting_for_ever
from harness.replay.grants import Grants, Scaling
from harness.replay.job_book import JobBook, ReplayJob
from harness.results.records import DecisionRecord, RunRecords

DECIDING = frozenset(
    {
        EventKind.SLOT_DOWN,
        EventKind.SLOT_UP,
        EventKind.JOB_FINISHED,
        EventKind.JOB_FAILED,
        EventKind.JOB_CANCELLED,
        EventKind.GRANT_LOST,
        EventKind.GRANT_SHRUNK,
        EventKind.CHANGE_FAILED,
        EventKind.ARRIVAL,
        EventKind.WAKE,
    }
)
"""Events after which the scheduler is asked. All other events wait in the news of the next view. A
scheduler with ``wants_progress`` is also asked after PROGRESS and CHANGE_DONE."""

_END_OF = {
    EventKind.JOB_FINISHED: JobState.FINISHED,
    EventKind.JOB_FAILED: JobState.FAILED,
    EventKind.JOB_CANCELLED: JobState.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a replay."""

    time_s: float
    num_ended: int
    num_jobs: int
    num_live: int
    """Jobs that have arrived and not ended."""
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
    shown: Profile | None = None,
) -> RunRecords:
    """Replay a trace to the end of its last job and return the records of the run.

    Jobs arrive on the engine's clock at their ``arrival_s``. Under ``scaling="strong"`` the global
    batch is fixed. Under ``"weak"`` the batch per slot is fixed, at its value on the requested
    slots. A batch that the scheduler grants overrides both rules. Schedulers see the speeds of
    ``shown`` (None: of ``profile``); the records use ``profile``.

    Raises:
        DecisionError: the scheduler broke a rule (over capacity, out of a job's bounds, an ability
            the backend lacks); the text names the job and the rule.
        ReplayError: jobs wait, nothing runs, and the scheduler asked for no wake-up. Also after
            more than ``endless.MOST_IDLE_WAKES`` consecutive wake-ups without effect.
    """
    gc_was_on = gc.isenabled()
    gc.disable()  # the replay makes millions of small frozen values, without cycles
    try:
        book = JobBook(cluster, profile, shown or profile, scheduler.needs)
        loop = _Replay(jobs, cluster, scheduler, placement, engine, book, scaling)
        began_s = time.perf_counter()
        loop.run(on_progress)
        wall_s = time.perf_counter() - began_s
    finally:
        if gc_was_on:
            gc.enable()
    records = book.records
    records.facts["replay_wall_s"] = wall_s
    records.facts["num_events"] = float(loop.num_events)
    records.facts["num_slots"] = float(cluster.num_slots)
    if cluster.shared_speed:
        records.facts["num_devices"] = float(len(cluster.devices))
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
        book: JobBook,
        scaling: Scaling,
    ) -> None:
        self.cluster = cluster
        self.scheduler = scheduler
        self.engine = engine
        self.book = book
        self.grants = Grants(cluster, placement, self.book, scaling)
        self.arrivals = sorted(jobs, key=lambda job: job.order)
        self.next_arrival = 0
        self.wake_s = math.inf
        self.idle_wakes = IdleWakes()
        self.views: immutables.Map[str, JobView] = immutables.Map()
        self.dirty: dict[str, ReplayJob] = {}
        """Jobs that changed since the last view."""
        self.news: list[Event] = []
        self.num_events = 0
        self.deciding = DECIDING
        if scheduler.wants_progress:
            self.deciding = DECIDING | {EventKind.PROGRESS, EventKind.CHANGE_DONE}

    def run(self, on_progress: Callable[[Progress], None] | None) -> None:
        """Run the loop until every job has ended."""
        num_jobs = len(self.arrivals)
        next_report = 0.0
        while self.book.num_ended < num_jobs:
            events = self._next_events()
            self.num_events += len(events)
            if self._handle(events):
                self._decide()
            self._reconcile()
            if self.next_arrival == num_jobs:  # earlier, the next arrival ends idle wake-ups
                self._check_wakes(events)
            if on_progress is not None and (now := time.perf_counter()) >= next_report:
                next_report = now + 0.2
                on_progress(self._progress())
        if on_progress is not None:
            on_progress(self._progress())
        self.book.close(self.engine.now())

    def _progress(self) -> Progress:
        num_jobs, num_live = len(self.arrivals), len(self.book.live)
        return Progress(self.engine.now(), self.book.num_ended, num_jobs, num_live, self.num_events)

    def _next_events(self) -> list[Event]:
        """Return all events of the next instant, in the order of ``EventKind``."""
        arrivals = self.arrivals
        next_arrival_s = math.inf
        if self.next_arrival < len(arrivals):
            next_arrival_s = arrivals[self.next_arrival].arrival_s
        until_s = min(next_arrival_s, self.wake_s)
        try:
            events = self.engine.wait(until_s)
        except RuntimeError as error:
            raise self._waiting_for_ever("the scheduler asked for no wake-up") from error
        # By the engine's clock: a live engine may return late, when more jobs have arrived.
        now_s = self.engine.now()
        while self.next_arrival < len(arrivals):
            job = arrivals[self.next_arrival]
            if job.arrival_s > now_s:
                break
            self.next_arrival += 1
            self.dirty[job.job_id] = self.book.arrive(job, now_s)
            events.append(Event(now_s, EventKind.ARRIVAL, job.job_id))
        if self.wake_s <= now_s:
            self.wake_s = math.inf
            events.append(Event(now_s, EventKind.WAKE))
        if len(events) > 1:
            events.sort(key=self._event_order)
        return events

    def _check_wakes(self, events: Sequence[Event]) -> None:
        """Stop a scheduler that only wakes up, without end, after the last arrival.

        Raises:
            ReplayError: too many consecutive wake-ups had no effect.
        """
        if all(event.kind is EventKind.WAKE for event in events) and self.engine.is_idle:
            why = self.idle_wakes.note(self.engine.now())
            if why is not None and self.book.live:
                raise self._waiting_for_ever(why)
        else:
            self.idle_wakes.reset()

    def _waiting_for_ever(self, why: str) -> ReplayError:
        num_down = len(self.grants.occupancy.down)
        return waiting_for_ever(self.book.live, self.cluster, num_down, why)

    def _event_order(self, event: Event) -> tuple[int, float, str]:
        job = self.book.live.get(event.job_id)
        return event.kind, job.spec.arrival_s if job else 0.0, event.job_id

    def _handle(self, events: Sequence[Event]) -> bool:
        """Bring the books up to date; return True if the scheduler is to be asked."""
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
            if kind is EventKind.SLOT_DOWN:
                self.grants.occupancy.mark_down(event.slot)
                self.book.slot_down(event.slot, event.time_s)
            else:
                self.grants.occupancy.mark_up(event.slot)
                self.book.slot_up(event.slot, event.time_s)
            return
        job = self.book.live.get(event.job_id)
        if job is None:
            return  # the job has ended before this event
        self.dirty[event.job_id] = job
        # First: the time up to the event counts with the slots and the rate before it.
        self.book.settle(job, event.time_s)
        if kind is EventKind.PROGRESS:
            job.samples_done = event.samples_done
            job.rate = event.samples_per_s
        elif kind is EventKind.CHANGE_DONE:
            self.grants.done(job, event)
        elif kind is EventKind.CHANGE_RETRY:
            self.grants.dropped(job, event, "retry")
        elif kind is EventKind.CHANGE_FAILED:
            self.grants.dropped(job, event, "failed")
            self.grants.set_target(job, job.reached)  # what it has becomes its grant again
        elif kind is EventKind.GRANT_LOST:
            self.grants.lost(job, event)
        elif kind is EventKind.GRANT_SHRUNK:
            self.grants.shrunk(job, event)
        else:
            state = _END_OF[kind]
            job.samples_done = event.samples_done
            self._end(job, state, event.time_s, event.reason)

    def _end(self, job: ReplayJob, state: JobState, time_s: float, reason: str) -> None:
        self.idle_wakes.reset()
        # First: the record of the job takes its counters, and closing its grant settles them.
        self.grants.leave(job, time_s)
        self.book.end(job, state, time_s, reason)

    def _view(self) -> ClusterView:
        live = self.book.live
        # A persistent map: views that a scheduler has kept stay as they were.
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
            down_slots=self.grants.occupancy.down,
            num_granted=self.grants.num_granted,
            in_flight=self.grants.in_flight,
        )

    def _decide(self) -> None:
        view = self._view()
        # After the view is made: the latency on record is the scheduler's alone.
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
            # Checked as a whole before anything is written down: a wrong decision changes nothing.
            check_decision(decision, view, self.engine.abilities, type(self.scheduler).__name__)
            records.decisions.append(
                DecisionRecord(view.time_s, len(view.news), len(decision.changes))
            )
            self._write_down(decision, view.time_s)

    def _write_down(self, decision: Decision, now_s: float) -> None:
        for job_id, action in decision.changes.items():
            job = self.book.live[job_id]
            self.dirty[job_id] = job
            if isinstance(action, Refuse):
                self.book.settle(job, now_s)
                self._end(job, JobState.REFUSED, now_s, action.reason)
                continue
            if isinstance(action, Suspend):
                if job.target is not None and job.slots:
                    job.num_preemptions += 1
                self.grants.set_target(job, None)
            else:
                self.grants.set_target(job, action)

    def _reconcile(self) -> None:
        """Give the engine every change that can begin now, until none is left."""
        # In a loop: changes without cost are done at once, and free slots for further ones.
        while changes := self.grants.changes(self.engine.now()):
            for change in changes:
                job = self.book.live[change.job.job_id]
                self.dirty[change.job.job_id] = job
            asked = self._handle(self.engine.apply(changes))
            # After the engine's answer: changes that are done at once never show as in flight.
            self.grants.note_in_flight(changes, self.book.live)
            if asked:
                self._decide()

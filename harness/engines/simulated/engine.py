"""Simulated engine: a virtual clock, throughput curves and rescale costs.

A running job computes T(w) samples per second by its profile, or the rate that its plan of virtual
workers allows (``engines/speeds.py``). A change takes the profile's cost for (backend, workload,
kind, sizes). During preparation the job goes on at its old size; during the pause it does not
train. The job holds all slots involved to the end. A change without preparation and pause is done
at once. If the profile has a cost of STOP (last evaluation, end of the processes), a job ends that
much after its last sample. A change at the instant of a job's end comes
too late: the job is finished. That holds in spite of rounding in the sums of its samples and times.

Slots that go down take their workers along. Under a backend that survives, the job goes on with the
remaining workers, after the pause of a rescale to them, and loses nothing. Any other backend loses
the job, which goes back to its last save: its last change, or a whole number of
``checkpoint_every_s`` later. A program that crashes takes all its workers down, so every backend
loses the job.

Where jobs share devices, a job's speed changes when another job starts or stops training on the
same devices. Its end is then planned again, and the engine reports its new rate as progress.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from operator import attrgetter

from harness.contracts.abilities import Abilities
from harness.contracts.change import Change, ChangeKind
from harness.contracts.event import Event, EventKind
from harness.engines.setup import EngineSetup
from harness.engines.simulated.costs import SimulatedCosts
from harness.engines.simulated.job import SimulatedJob
from harness.engines.simulated.speeds import Speeds
from harness.engines.simulated.variation import Variation
from harness.profiles import RescaleCost
from harness.results.records import RunRecords
from harness.trace.model.events import TraceEvent, TraceEventKind


class SimulatedEngine:
    """Engine on a virtual clock; the module's docstring describes it. One object serves one run."""

    def __init__(
        self,
        setup: EngineSetup,
        speeds: Speeds,
        cost_factor: float,
        checkpoint_every_s: float = math.inf,
        variation: Variation | None = None,
    ) -> None:
        self._speeds = speeds
        self._costs = SimulatedCosts(setup, cost_factor, variation)
        self._abilities = setup.backend.abilities
        self._checkpoint_every_s = checkpoint_every_s
        self._due = deque(setup.events)
        """Events of the trace that are still to come."""
        self._now_s = 0.0
        self._progress: dict[str, SimulatedJob] = {}
        # Simultaneous events come by kind, then by arrival and id of their job. The sequence number
        # is unique, so that no comparison reaches ``change``, which has no order.
        # (time, kind, arrival, job id, sequence, version, change)
        self._heap: list[tuple[float, int, float, str, int, int, Change | None]] = []
        self._sequence = 0

    @property
    def abilities(self) -> Abilities:
        """Abilities of the configured backend."""
        return self._abilities

    def now(self) -> float:
        """Return the virtual seconds since the start of the run."""
        return self._now_s

    def wait(self, until_s: float) -> list[Event]:
        """Jump to the next event or to ``until_s``; see ``Engine.wait``."""
        heap = self._heap
        events: list[Event] = []
        due_s = self._due[0].time_s if self._due else math.inf
        while heap:
            time_s, kind, _, job_id, _, version, change = heap[0]
            progress = self._progress.get(job_id)
            # A heap gives up only its first entry, so that void ones stay until they come up.
            if progress is None or _is_void(progress, time_s, kind, version):
                heapq.heappop(heap)
                continue
            # All events of one instant are returned together: one decision is made about all of
            # them.
            if time_s > until_s or (events and time_s > self._now_s):
                break
            # In one instant jobs end first, then the trace's events happen, then changes go on.
            if due_s < time_s or (due_s == time_s and kind > _HAPPENS):
                events = self._happen(due_s, events)
                due_s = self._due[0].time_s if self._due else math.inf
                continue
            heapq.heappop(heap)
            self._now_s = time_s
            if kind == _PAUSE_BEGINS:
                assert change is not None
                events.append(self._begin_pause(change, progress))
            elif kind == EventKind.PROGRESS:
                events.append(self._go_on(progress))
            elif change is None:
                events.append(self._finish_job(job_id))
            else:
                events.append(self._complete(change, progress))
        # Events of the trace that affect no job or slot are passed over.
        while self._due and self._due[0].time_s <= (self._now_s if events else until_s):
            events = self._happen(self._due[0].time_s, events)
        if not events:
            if math.isinf(until_s):
                raise RuntimeError("nothing is under way and nothing is due")
            self._now_s = max(self._now_s, until_s)
        return events + self._turned(events)

    @property
    def is_idle(self) -> bool:
        """True if no event of a job or of the trace is planned any more."""
        if self._due:
            return False
        for time_s, kind, _, job_id, _, version, _ in self._heap:
            progress = self._progress.get(job_id)
            if progress is not None and not _is_void(progress, time_s, kind, version):
                return False
        return True

    def apply(self, changes: Sequence[Change]) -> list[Event]:
        """Begin the changes; those without cost are done at once.

        A job that is over is finished instead. Otherwise a residue of its work, smaller than the
        clock's resolution, would be suspended and later resumed for no time.
        """
        events = []
        for change in changes:
            job_id = change.job.job_id
            if change.kind is ChangeKind.START:
                # A job that lost its first workers starts again; its planned events are void.
                lost = self._progress.get(job_id)
                self._progress[job_id] = SimulatedJob(change.job, lost.version if lost else 0)
            progress = self._progress[job_id]
            progress.change = change
            cost = self._costs.of(change)
            if progress.is_over(self._now_s):
                events.append(self._finish_job(job_id))
            elif cost.preparation_s == 0.0 and cost.pause_s == 0.0:
                progress.settle(self._now_s)
                events.append(self._finish_change(change, progress, cost))
            elif cost.preparation_s == 0.0:
                events.append(self._begin_pause(change, progress))
            else:
                # Without a pause the change is done then, and no event reports a rate of 0.
                then = _PAUSE_BEGINS if cost.pause_s > 0.0 else EventKind.CHANGE_DONE
                self._push(self._now_s + cost.preparation_s, then, progress, change)
        return events + self._turned(events)

    def _turned(self, events: Sequence[Event]) -> list[Event]:
        """Return progress events of jobs whose speed changed because other jobs came or left."""
        shared = self._speeds.shared
        if shared is None or not events:
            return []
        devices: set[int] = set()
        for job_id in {event.job_id: None for event in events}:
            progress = self._progress.get(job_id)
            trains = progress is not None and progress.rate > 0.0
            devices |= shared.note(job_id, progress.slots if progress and trains else ())
        beside = [self._progress[job_id] for job_id in shared.jobs_on(devices)]
        found = []
        # ``jobs_on`` returns a set, whose order differs between processes. Records must not.
        for progress in sorted(beside, key=lambda one: one.job.order):
            rate = self._speeds.samples_per_s(progress)
            if rate == progress.rate or progress.is_over(self._now_s):
                continue
            progress.turn(self._now_s, rate, self._checkpoint_every_s)
            if progress.done < progress.job.work_samples:  # else only its processes have to end
                found.append(self._go_on(progress))
        return found

    def _happen(self, now_s: float, events: list[Event]) -> list[Event]:
        """Carry out the trace's events of this instant, and return them with this instant's other
        events.

        A job that ends in this instant has ended before them. A change that would be done in the
        instant of a failure has failed.
        """
        self._now_s = now_s
        ended, events = events, []
        down: set[int] = set()
        while self._due and self._due[0].time_s <= self._now_s:
            event = self._due.popleft()
            if event.kind is TraceEventKind.CANCEL:
                events.append(self._cancel(event.job_id))
                continue
            if event.kind.is_of_job:
                events += self._break_down(event)
                continue
            is_down = event.kind is TraceEventKind.SLOTS_DOWN
            kind = EventKind.SLOT_DOWN if is_down else EventKind.SLOT_UP
            events += [Event(self._now_s, kind, slot=slot) for slot in event.slots]
            down.update(event.slots if is_down else ())
        if down:
            events += self._lose(down)
        return sorted(ended + events, key=attrgetter("kind"))

    def _cancel(self, job_id: str) -> Event:
        progress = self._progress.get(job_id)
        if progress is not None and progress.is_over(self._now_s):
            return self._finish_job(job_id)
        self._progress.pop(job_id, None)
        done = 0.0
        if progress is not None:
            progress.settle(self._now_s)
            done = progress.done
        return Event(self._now_s, EventKind.JOB_CANCELLED, job_id, samples_done=done)

    def _break_down(self, event: TraceEvent) -> list[Event]:
        """Let a job's program crash, or fail for good; a job without workers is left alone."""
        progress = self._progress.get(event.job_id)
        if progress is None or not (progress.slots or progress.change):
            return []
        if progress.is_over(self._now_s):
            return [self._finish_job(event.job_id)]
        progress.settle(self._now_s)
        if event.kind is TraceEventKind.CRASH:
            return [self._lose_job(progress, "its program crashed")]
        del self._progress[event.job_id]
        kind, reason = EventKind.JOB_FAILED, "its program failed"
        return [Event(self._now_s, kind, event.job_id, samples_done=progress.done, reason=reason)]

    def _lose(self, down: set[int]) -> list[Event]:
        """Return the fate of the jobs with workers on these slots, or on their way there."""
        events: list[Event] = []
        for progress in list(self._progress.values()):
            change = progress.change
            coming = change.slots if change is not None else ()
            if down.isdisjoint(progress.slots) and down.isdisjoint(coming):
                continue
            if progress.is_over(self._now_s):
                events.append(self._finish_job(progress.job.job_id))
                continue
            progress.settle(self._now_s)
            left = tuple(slot for slot in progress.slots if slot not in down)
            if left and self._abilities.survive:
                events += self._survive(progress, left)
            else:
                events.append(self._lose_job(progress, "a slot went down"))
        return events

    def _survive(self, progress: SimulatedJob, left: tuple[int, ...]) -> list[Event]:
        """Let a job go on with its remaining slots; a change that was under way fails."""
        job_id, now_s = progress.job.job_id, self._now_s
        change, before = progress.change, progress.slots
        if progress.virtual_workers is not None:
            progress.virtual_workers = self._speeds.spread(progress.job, progress.batch, left)
        progress.slots, progress.change = left, None
        shrinks = left != before
        pause_s = self._costs.recovery_s(progress, len(before)) if shrinks else 0.0
        # Before anything is planned: it voids all that is planned for the job.
        progress.stand()
        going_on = None
        if pause_s > 0.0:
            self._push(now_s + pause_s, EventKind.PROGRESS, progress, None)
        else:
            going_on = self._go_on(progress)
        events = []
        done, rate = progress.done, progress.rate
        # The change fails first: no change may be in flight when the replay hears of the lost
        # slots.
        if change is not None:
            kind = EventKind.CHANGE_FAILED
            reason = "a slot of the change went down"
            events.append(
                Event(now_s, kind, job_id, change.change_id, samples_done=done, reason=reason)
            )
        if shrinks:
            kind = EventKind.GRANT_SHRUNK
            events.append(
                Event(now_s, kind, job_id, samples_done=done, samples_per_s=rate, slots=left)
            )
        elif going_on is not None:
            events.append(going_on)
        return events

    def _go_on(self, progress: SimulatedJob) -> Event:
        """Let the job train on the slots that it has, and return its progress."""
        progress.since_s = self._now_s
        self._train(progress)
        job_id, done = progress.job.job_id, progress.done
        return Event(
            self._now_s,
            EventKind.PROGRESS,
            job_id,
            samples_done=done,
            samples_per_s=progress.rate,
        )

    def _lose_job(self, progress: SimulatedJob, reason: str) -> Event:
        """Take all workers of a job; the job waits at its last checkpoint."""
        progress.roll_back(self._now_s, self._checkpoint_every_s)
        progress.slots, progress.change = (), None
        progress.stand()
        return Event(
            self._now_s,
            EventKind.GRANT_LOST,
            progress.job.job_id,
            samples_done=progress.done,
            reason=reason,
        )

    def observe(self, records: RunRecords) -> None:
        """Add nothing, because the replay has seen all facts of a simulation."""

    def close(self) -> None:
        """Do nothing, because a simulation holds no resources."""

    def _begin_pause(self, change: Change, progress: SimulatedJob) -> Event:
        """Stop training for a change, void the job's planned events, and plan the end of the
        change."""
        if progress.is_over(self._now_s):
            return self._finish_job(change.job.job_id)
        progress.settle(self._now_s)
        progress.save(self._now_s)
        # Before ``stand``, which sets the rate to 0.
        progress.paused_rate = progress.rate
        progress.stand()
        cost = self._costs.of(change)
        self._push(self._now_s + cost.pause_s, EventKind.CHANGE_DONE, progress, change)
        return Event(self._now_s, EventKind.PROGRESS, change.job.job_id, samples_done=progress.done)

    def _complete(self, change: Change, progress: SimulatedJob) -> Event:
        """Finish a change that is due, or its job if the job is over."""
        if progress.is_over(self._now_s):
            return self._finish_job(change.job.job_id)
        progress.settle(self._now_s)
        return self._finish_change(change, progress, self._costs.of(change))

    def _finish_change(self, change: Change, progress: SimulatedJob, cost: RescaleCost) -> Event:
        """Put a change into effect: the job trains at its new size, or not at all."""
        now_s = self._now_s
        progress.since_s = now_s
        progress.save(now_s)
        progress.slots, progress.batch = change.slots, change.global_batch
        progress.virtual_workers = change.virtual_workers
        progress.change = None
        progress.version += 1
        if change.kind is ChangeKind.STOP:
            del self._progress[change.job.job_id]
        else:
            self._train(progress)
        is_rescale = change.kind in (ChangeKind.RESCALE, ChangeKind.MIGRATE)
        return Event(
            now_s,
            EventKind.CHANGE_DONE,
            change.job.job_id,
            change_id=change.change_id,
            samples_done=progress.done,
            samples_per_s=progress.rate,
            stopping_time_s=cost.pause_s if is_rescale else None,
            samples_lost=cost.pause_s * progress.paused_rate if is_rescale else None,
            phases_s=cost.phases_s,
        )

    def _finish_job(self, job_id: str) -> Event:
        """End a job whose work is all done; its planned events become void."""
        work = self._progress.pop(job_id).job.work_samples
        return Event(self._now_s, EventKind.JOB_FINISHED, job_id, samples_done=work)

    def _train(self, progress: SimulatedJob) -> None:
        """Set the job's rate for its slots from now on, and plan its end."""
        progress.rate = self._speeds.samples_per_s(progress)
        progress.end_s = math.inf
        if progress.rate > 0.0:
            left = max(0.0, progress.job.work_samples - progress.done)
            progress.end_s = self._now_s + left / progress.rate + self._costs.stop_s(progress)
            self._push(progress.end_s, EventKind.JOB_FINISHED, progress, None)

    def _push(
        self, time_s: float, kind: int, progress: SimulatedJob, change: Change | None
    ) -> None:
        self._sequence += 1
        job = progress.job
        heapq.heappush(
            self._heap,
            (
                time_s,
                kind,
                job.arrival_s,
                job.job_id,
                self._sequence,
                progress.version,
                change,
            ),
        )


def _is_void(progress: SimulatedJob, time_s: float, kind: int, version: int) -> bool:
    """Return whether a planned event of a job is outdated, because the job has changed since."""
    return progress.version != version or (
        kind == EventKind.JOB_FINISHED and time_s != progress.end_s
    )


_HAPPENS = EventKind.JOB_CANCELLED
"""Last kind of planned event that comes before the trace's events of the same instant."""
_PAUSE_BEGINS = EventKind.CHANGE_FAILED
"""Internal kind for the end of a preparation. It comes after ends in its instant and before other
changes."""

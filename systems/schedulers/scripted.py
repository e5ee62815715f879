"""Scheduler that follows a script."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import ClassVar

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.job_state import JobState
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import gang_slots, refuse_misfit
from systems.schedulers.common.news import refusals
from systems.schedulers.common.script import Order, Step, parse_script, repeated
from systems.schedulers.common.waiting import Key, WaitingJobs


class Scripted:
    """Scheduler that follows a script; jobs without steps are scheduled first in, first out, in
    gangs.

    ``script``: a list of steps ``{job: id or index of arrival, at_s | at_samples | at_step |
    after_steps, slots: count | list of slots | suspend | refuse, batch: global batch}``. ``batch``
    is optional; without it a step means the job's own batch (Saxena et al., section III, also halt
    a job and continue it with another batch). ``at_s`` is on the engine's clock. ``at_samples``
    counts the job's samples, ``at_step`` its steps at its own global batch, ``after_steps`` such
    steps since the previous step was done. The steps of a job happen in the order listed, each no
    earlier than the previous one.

    ``repeat``: number of times that the whole script is done. ``every_s``: ``at_s`` counts from
    this many seconds later in each repetition.

    Every job starts as under ``Fifo`` unless a step that is due says otherwise: ``suspend`` before
    the first start holds the job back until a later step. A step that asks for slots which are not
    free waits for them, and no new job starts before it. A job can be refused only while it has no
    slots.

    Overhead measurements use such scripts, for example "at step 20 go to 4 slots" on a one-job
    trace. Between two reports, samples are computed from the job's present rate.

    Source: none; the script decides, not a paper's rule.

    Checked: ``exact``: the changes of scripts, compared with the scripts by hand.

    Raises:
        ValueError: all mistakes in the script, one line for each.
    """

    checked: ClassVar[str] = "exact"
    needs: frozenset[Knowledge] = frozenset()

    def __init__(
        self,
        script: Sequence[Mapping[str, object]] = (),
        repeat: int = 1,
        every_s: float = 0.0,
    ) -> None:
        self._script = repeated(parse_script(script), repeat, every_s)
        self.requires = _requirements(self._script)
        self.wants_progress = any(step.at_s is None for step in self._script)
        """True if every report of progress asks for a decision too."""
        self._known: set[str] = set()
        self._num_arrived = 0
        self._steps: dict[str, deque[Step]] = {}
        self._waiting = WaitingJobs()
        self._held_back: set[str] = set()
        self._settled: dict[str, float] = {}
        """Samples that each job had done when it got the slots of its last step."""

    def decide(self, view: ClusterView) -> Decision:
        """Do the steps that are due, then start the jobs that no step holds back."""
        changes = refusals(view, self._look_again)
        free = view.num_free
        is_blocked = True
        progressed = True
        while is_blocked and progressed:  # a step may wait for slots that a later step gives up
            is_blocked = progressed = False
            for job_id in list(self._steps):
                job = view.jobs[job_id]
                if job_id not in self._settled and _is_settled(job, view):
                    self._settled[job_id] = job.samples_done
                num_steps = len(self._steps[job_id])
                held = _slots_of(changes.get(job_id, job.grant))
                action, blocked = self._act(job, held, free, view.time_s)
                is_blocked = is_blocked or blocked
                progressed = progressed or len(self._steps.get(job_id, ())) < num_steps
                if action is not None:
                    free += held - _slots_of(action)
                    changes[job_id] = action
        while not is_blocked and (key := self._waiting.first()) is not None:
            if key.num_slots > free:
                break
            self._waiting.discard(key.job_id)
            changes[key.job_id] = Grant(key.num_slots)
            free -= key.num_slots
        return Decision(changes, self._next_wake(view))

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Update the records of one job from the view."""
        job = view.jobs.get(job_id)
        if job is None:
            self._forget(job_id)
            return None
        if job_id not in self._known:
            self._known.add(job_id)
            steps = deque(s for s in self._script if s.job in (job_id, self._num_arrived))
            self._num_arrived += 1
            misfit = refuse_misfit(job.spec, gang_slots(job.spec), view.cluster)
            if steps:
                self._steps[job_id] = steps
            if misfit is not None:
                if not steps:
                    self._forget(job_id)
                    return misfit
                self._held_back.add(job_id)  # only the script can give the job a size that fits
        if job.grant is not None:
            self._waiting.discard(job_id)
        elif job_id not in self._waiting and job_id not in self._held_back:
            arrival_s = job.spec.arrival_s
            self._waiting.put(Key(0, 0.0, arrival_s, job_id, gang_slots(job.spec)))
        return None

    def _forget(self, job_id: str) -> None:
        self._known.discard(job_id)
        self._steps.pop(job_id, None)
        self._settled.pop(job_id, None)
        self._held_back.discard(job_id)
        self._waiting.discard(job_id)

    def _act(
        self, job: JobView, held: int, free: int, now_s: float
    ) -> tuple[Grant | Suspend | Refuse | None, bool]:
        """Return the change by the job's due steps, and whether one of them must wait for slots."""
        steps = self._steps[job.job_id]
        target, is_blocked = held, False
        before = job.grant.global_batch if job.grant else None
        batch = before
        exact: tuple[int, ...] | None = None
        while steps and self._due_s(job, now_s) <= now_s:
            action = steps[0].action
            if action is Order.REFUSE:
                if held or job.slots or job.state not in (JobState.PENDING, JobState.SUSPENDED):
                    break
                self._forget(job.job_id)
                return Refuse("the script says so"), False
            if isinstance(action, int) and action > free + held:
                is_blocked = True
                break
            target = action if isinstance(action, int) else 0
            batch, exact = steps[0].batch, steps[0].slots
            steps.popleft()
            self._settled.pop(job.job_id, None)
            self._waiting.discard(job.job_id)
            if target:
                self._held_back.discard(job.job_id)
            else:
                self._held_back.add(job.job_id)
        if not steps:
            self._steps.pop(job.job_id, None)
        is_moved = exact is not None and exact != job.slots
        if target == held and batch == before and not is_moved:
            return None, is_blocked
        if not target:
            return Suspend(), is_blocked
        return Grant(target, slots=exact, global_batch=batch), is_blocked

    def _due_s(self, job: JobView, now_s: float) -> float:
        """Return the time at which the job's next step is due."""
        return self._steps[job.job_id][0].due_s(job, now_s, self._settled.get(job.job_id))

    def _next_wake(self, view: ClusterView) -> float | None:
        """Return the time of the first step that is not due yet, as far as it is known now."""
        now_s = view.time_s
        dues = (self._due_s(view.jobs[job_id], now_s) for job_id in self._steps)
        earliest = min((due_s for due_s in dues if due_s > now_s), default=math.inf)
        return None if math.isinf(earliest) else earliest


def _is_settled(job: JobView, view: ClusterView) -> bool:
    """Return whether the job trains on the slots it was last given."""
    return (
        job.state is JobState.RUNNING
        and job.grant is not None
        and len(job.slots) == job.grant.num_slots
        and job.job_id not in view.in_flight
    )


def _slots_of(action: Grant | Suspend | Refuse | None) -> int:
    return action.num_slots if isinstance(action, Grant) else 0


def _requirements(script: tuple[Step, ...]) -> frozenset[Requirement]:
    """Return the abilities of a backend that this script requires."""
    requires = set()
    before: dict[str | int, int | Order | None] = {}
    for step in script:
        if step.batch is not None:
            requires.add(Requirement.CHANGE_BATCH)
        if step.action is Order.SUSPEND:
            requires.add(Requirement.SUSPEND)
        elif isinstance(step.action, int):
            is_start = step.job not in before and step.at_s == 0.0
            if not is_start and before.get(step.job) is not Order.SUSPEND:
                requires.add(Requirement.RESCALE)
                if step.slots is not None:
                    requires.add(Requirement.MIGRATE)
        before[step.job] = step.action
    return frozenset(requires)

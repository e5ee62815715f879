"""Desired grants, the slots that each job holds, and the next change of each job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import immutables

from harness.cluster import Cluster
from harness.contracts.change import Change, ChangeKind
from harness.contracts.decision import Grant
from harness.contracts.event import Event, EventKind
from harness.contracts.job_state import JobState
from harness.contracts.placement import Arranging, Occupant, Placement
from harness.replay.job_book import JobBook, ReplayJob
from harness.replay.occupancy import Occupancy

Scaling = Literal["strong", "weak", "adaptive"]


def _reached(change: Change) -> Grant:
    """Return the grant that a job has once a change is done; the job's view names the slots."""
    workers = change.virtual_workers
    return Grant(len(change.slots), global_batch=change.global_batch, virtual_workers=workers)


def _in_rank_order(grant: Grant, slots: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the virtual workers of each of ``slots``, whose order may differ from that of the
    grant."""
    if grant.virtual_workers is None or grant.slots is None:
        return grant.virtual_workers
    of_slot = dict(zip(grant.slots, grant.virtual_workers, strict=True))
    return tuple(of_slot[slot] for slot in slots)


def _grows_anywhere(job: ReplayJob) -> bool:
    """Return whether a job is to have more slots than it holds and the placement chooses them."""
    target = job.target
    return target is not None and target.slots is None and target.num_slots > len(job.slots)


class Grants:
    """Desired grants, the slots really held, and the changes that lead from one to the other.

    A grant is recorded at once. Its change begins as soon as the slots that it needs are really
    free and the job has no other change in flight.
    """

    def __init__(
        self, cluster: Cluster, placement: Placement, book: JobBook, scaling: Scaling
    ) -> None:
        self.occupancy = Occupancy(cluster)
        self.num_granted = 0
        """Total number of slots of all desired grants."""
        self.in_flight: immutables.Map[str, tuple[int, ...]] = immutables.Map()
        """Jobs with a change in flight, and the slots that it holds; changes without cost never
        appear."""
        self._cluster = cluster
        self._placement = placement
        self._arranging = placement if isinstance(placement, Arranging) else None
        self._holders: dict[str, ReplayJob] = {}
        """Jobs that hold slots."""
        self._book = book
        self._scaling = scaling
        self._unmet: dict[str, ReplayJob] = {}
        """Jobs whose grant is not yet reached while they have no change in flight. They are in the
        order of the decisions."""
        self._num_changes = 0

    def set_target(self, job: ReplayJob, target: Grant | None) -> None:
        """Record the grant that a job is to have; None: no slots."""
        before = job.target.num_slots if job.target else 0
        self.num_granted += (target.num_slots if target else 0) - before
        job.target = target
        # Taken out even if it comes back: a job with a new grant goes to the end of the order.
        self._unmet.pop(job.spec.job_id, None)
        # A change in flight ends in ``done`` or ``dropped``, which look again.
        if job.change is None:
            self._note(job)

    def hold(self, job: ReplayJob, slots: tuple[int, ...], time_s: float) -> None:
        """Set the slots that the job holds; the job book records any difference."""
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
        if slots:
            self._holders[job.spec.job_id] = job
        else:
            del self._holders[job.spec.job_id]
        self._book.hold(job, slots, time_s)

    def changes(self, now_s: float) -> list[Change]:
        """Begin every change that can begin now, and return them; their slots are held at once."""
        if not self._unmet:
            return []
        begun = []
        for job_id, job in list(self._unmet.items()):
            # A placement that moves jobs decides about all growing jobs at once, below.
            if self._arranging is not None and _grows_anywhere(job):
                continue
            change = self._next_change(job, now_s)
            if change is not None:
                del self._unmet[job_id]
                begun.append(change)
        if self._arranging is not None:
            begun += self._arranged(self._arranging, now_s)
        return begun

    def _arranged(self, placement: Arranging, now_s: float) -> list[Change]:
        """Begin and return the changes of jobs that are to have more slots, and of jobs that move
        for them."""
        waiting, left = {}, self.occupancy.num_free
        for job_id, job in self._unmet.items():
            if job.target is not None and _grows_anywhere(job):
                need = job.target.num_slots - len(job.slots)
                if need <= left:
                    waiting[job_id] = Occupant(
                        job_id, job.target.num_slots, job.slots, job.target.device_type
                    )
                    left -= need
        if not waiting:
            return []
        chosen = placement.arrange(
            self._cluster,
            self.occupancy,
            self._leaving(),
            list(waiting.values()),
            [one for one in self._settled() if one.job_id not in waiting],
        )
        begun = []
        for job_id, slots in chosen.items():
            job = self._book.live[job_id]
            # A job that is to move but has not reached its grant yet must wait.
            is_ready = job_id in waiting or (job.change is None and self._is_met(job))
            if is_ready and self.occupancy.is_free([s for s in slots if s not in job.slots]):
                self._unmet.pop(job_id, None)
                begun.append(self._begin_at(job, slots, now_s))
        return begun

    def _leaving(self) -> list[int]:
        """Return the slots that changes in flight give up."""
        found: list[int] = []
        for job in self._holders.values():
            if job.change is not None:
                kept = () if job.target is None else job.change.slots
                found += [slot for slot in job.slots if slot not in kept]
        return found

    def _settled(self) -> list[Occupant]:
        """Return the jobs that may be moved now, or once changes in flight are done."""
        awaits = any(job.change is not None for job in self._holders.values())
        found = []
        for job_id, job in self._holders.items():
            slots = job.slots if job.change is None else job.change.slots
            target = job.target
            if target is None or target.slots is not None or not slots:
                continue
            if awaits or self._is_met(job):
                found.append(Occupant(job_id, len(slots), slots, target.device_type))
        return found

    def note_in_flight(self, changes: list[Change], live: Mapping[str, ReplayJob]) -> None:
        """Show the changes that were not done at once in ``in_flight``."""
        for change in changes:
            job_id = change.job.job_id
            job = live.get(job_id)
            if job is not None and job.change is change:
                self.in_flight = self.in_flight.set(job_id, job.slots)

    def done(self, job: ReplayJob, event: Event) -> None:
        """Record that a job's change is done; from now on the job holds only the new slots."""
        change = job.change
        assert change is not None
        assert change.change_id == event.change_id
        self.close(job, event, "done")
        job.samples_done = event.samples_done
        # The old period is closed first: its record needs the batch of the old ``reached``.
        self._book.cut_grant(job, event.time_s)
        self.hold(job, change.slots, event.time_s)
        job.rate = event.samples_per_s
        job.has_run = True
        suspended = change.kind is ChangeKind.SUSPEND
        job.reached = None if suspended else _reached(change)
        self._book.move(job, JobState.SUSPENDED if suspended else JobState.RUNNING)
        self._note(job)

    def dropped(self, job: ReplayJob, event: Event, outcome: str) -> None:
        """Record that a job's change did not happen; the job returns to its state before the
        change."""
        change = job.change
        assert change is not None
        self.close(job, event, outcome)
        self.hold(job, change.previous_slots, event.time_s)
        before = JobState.RUNNING
        if not change.previous_slots:
            before = JobState.SUSPENDED if job.has_run else JobState.PENDING
        if job.state is not before:
            self._book.move(job, before)
        self._note(job)

    def lost(self, job: ReplayJob, event: Event) -> None:
        """Record that a job lost its workers and slots. The job waits, and the scheduler decides
        again.

        A suspension that was decided before the loss does not count as a preemption.
        """
        if job.slots:
            self._book.count_interruption()
            if job.target is None:
                job.num_preemptions -= 1
        self.close(job, event, "failed")
        job.samples_done = event.samples_done
        self.hold(job, (), event.time_s)
        job.rate = 0.0
        job.reached = None
        self._book.move(job, JobState.SUSPENDED if job.has_run else JobState.PENDING)
        # After ``reached`` was cleared: with it the job would count as unmet, and be suspended once
        # more.
        self.set_target(job, None)

    def shrunk(self, job: ReplayJob, event: Event) -> None:
        """Record that a job lost some workers and their slots, and trains on with the others.

        The remaining slots become its grant, and the scheduler decides again.
        """
        if job.reached is None:
            return  # the job has lost all its workers before this event
        assert job.change is None, "a change that was in flight has ended by now"
        remaining = tuple(slot for slot in event.slots if slot in job.slots)
        self._book.count_loss(len(job.slots) - len(remaining), event.num_stragglers)
        job.samples_done = event.samples_done
        self.hold(job, remaining, event.time_s)
        job.rate = event.samples_per_s
        job.reached = Grant(len(remaining), global_batch=job.reached.global_batch)
        self.set_target(job, job.reached)

    def leave(self, job: ReplayJob, time_s: float) -> None:
        """Release all slots of a job that has ended, and drop its grant and its change."""
        end = Event(time_s, EventKind.CHANGE_FAILED, job.spec.job_id, reason="the job ended")
        self.close(job, end, "overtaken")
        self.hold(job, (), time_s)
        job.reached = None
        self.set_target(job, None)

    def close(self, job: ReplayJob, event: Event, outcome: str) -> None:
        """End the record of a job's change, if the job has a change in flight."""
        if job.change is None:
            return
        self._book.close_change(job, event, outcome)
        if job.spec.job_id in self.in_flight:
            self.in_flight = self.in_flight.delete(job.spec.job_id)

    def _note(self, job: ReplayJob) -> None:
        if not self._is_met(job):
            self._unmet[job.spec.job_id] = job

    def _is_met(self, job: ReplayJob) -> bool:
        target, reached = job.target, job.reached
        if target is None or reached is None:
            return target is reached
        return (
            target.num_slots == reached.num_slots
            and (target.slots is None or set(target.slots) == set(job.slots))
            and self._batch(job, target) == reached.global_batch
            and _in_rank_order(target, job.slots) in (None, reached.virtual_workers)
        )

    def _batch(self, job: ReplayJob, grant: Grant) -> int:
        """Return the global batch of a grant: the scheduler's choice, or by the scaling rule."""
        spec = job.spec
        if grant.global_batch is not None:
            return grant.global_batch
        if self._scaling != "weak":
            return spec.global_batch
        per_slot = max(1, round(spec.global_batch / spec.requested_slots))
        return per_slot * grant.num_slots

    def _next_change(self, job: ReplayJob, now_s: float) -> Change | None:
        """Begin the change that leads to the job's grant, and return it; None if its slots are not
        free."""
        target, held = job.target, job.slots
        if target is None:
            return self._begin(job, ChangeKind.SUSPEND, (), JobState.SUSPENDING, now_s)
        slots = self._slots_for(target, held)
        return None if slots is None else self._begin_at(job, slots, now_s)

    def _begin_at(self, job: ReplayJob, slots: tuple[int, ...], now_s: float) -> Change:
        """Begin the change that brings a job to these slots, and return it."""
        held = job.slots
        if not held:
            kind = ChangeKind.RESUME if job.has_run else ChangeKind.START
            return self._begin(job, kind, slots, JobState.STARTING, now_s)
        same_count = len(slots) == len(held) and slots != held
        kind = ChangeKind.MIGRATE if same_count else ChangeKind.RESCALE
        return self._begin(job, kind, slots, JobState.RESCALING, now_s)

    def _slots_for(self, target: Grant, held: tuple[int, ...]) -> tuple[int, ...] | None:
        if target.slots is not None:
            kept = tuple(slot for slot in held if slot in target.slots)
            added = tuple(slot for slot in target.slots if slot not in held)
            is_free = self.occupancy.is_free(added, beside_others=target.share < 1.0)
            return kept + added if is_free else None
        if target.num_slots == len(held):
            return held
        if target.num_slots - len(held) > self.occupancy.num_free:
            return None
        return self._placement.place(
            target.num_slots, self._cluster, self.occupancy, held, target.device_type
        )

    def _begin(
        self,
        job: ReplayJob,
        kind: ChangeKind,
        slots: tuple[int, ...],
        state: JobState,
        now_s: float,
    ) -> Change:
        self._book.settle(job, now_s)
        self._book.cut_grant(job, now_s)
        self._num_changes += 1
        target, held = job.target, job.slots
        change = Change(
            self._num_changes,
            kind,
            job.spec,
            held,
            slots,
            self._batch(job, target) if target else job.spec.global_batch,
            _in_rank_order(target, slots) if target else None,
        )
        if slots and held:
            # Old and new slots are held until the change is done, since there are workers on both.
            self.hold(job, held + tuple(slot for slot in slots if slot not in held), now_s)
        elif slots:
            self.hold(job, slots, now_s)
        self._book.open_change(job, change, now_s)
        self._book.move(job, state)
        return change

"""Gandiva: jobs take turns on the slots, and move or grow if that helps them."""

from __future__ import annotations

import math
from typing import ClassVar

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import gang_slots, refuse_misfit
from systems.schedulers.common.gang_plan import GangPlan
from systems.schedulers.common.idle_slots import free_by_host, grown, moved, taken_from
from systems.schedulers.common.news import refusals
from systems.schedulers.common.packing import (
    IN_TURN,
    Packing,
    in_turn,
    is_cut_off,
    promised_devices,
    usable_devices,
)
from systems.schedulers.common.rounds import Rounds
from systems.schedulers.common.waiting import Key

_WAITING, _DONE = IN_TURN + 1, IN_TURN + 2
"""Levels of the order: a waiting job comes after a job in the middle of its turn, and before a
job that just had a turn."""


class Gandiva:
    """Round robin over all jobs at the slots they requested, in turns of ``quantum_s``.

    While jobs wait, a round begins every ``quantum_s`` seconds. First the jobs that have waited
    longest get their requested slots. Then follow the running jobs that fit, last started first. A
    job that does not fit is suspended. Between rounds no job is suspended, and free slots go to the
    waiting jobs that fit, the longest waiting first.

    ``migrate``: whenever something happens and no change is in flight, a job on more hosts than
    necessary moves to fewer hosts, if slots are free for that.
    ``grow_after_s``: after this many seconds with idle slots and no waiting job, the free slots of
    each host are shared among the elastic jobs that use only that host. As soon as a job waits, all
    go back to their requested slots. None: never, as in ElasticFlow's evaluation ("not elastic").

    ``pack_above``: two jobs of equal size share the same devices, if the cluster allows it
    (``Cluster.shared_speed``; otherwise the option has no effect). In a round, each job that starts
    gets as its guest one job whose turn is over: the last started job that is allowed. Then jobs
    that still wait become guests of jobs that continue alone, the longest waiting with the last
    started first. No job's turn becomes shorter by this. A job shares only after its speed alone
    was measured in a turn without a guest. In every round the relative speeds of a pair (shared
    over alone) are summed. If the sum is at most ``pack_above``, the guest waits for a turn, and
    the two are never paired again. The same is true if one job of a pair was lost or could not
    start, since two may need more memory than the device has. Guests move to idle devices as soon
    as no waiting job fits on these. None: jobs never share a device. 1: pairs must do more together
    than in turns.

    Source: Xiao et al., "Gandiva", OSDI 2018, as described in one sentence in Gu et al.,
    "ElasticFlow", ASPLOS 2023, section 6.1, and, for packing, in Li et al., "EasyScale", SC 2023,
    section 5.1.3; the rest is general knowledge of its mechanisms. Chosen here: time slices of one
    minute; one queue for the cluster, not one for each host, so hosts are not separated by the size
    of their jobs (the placement consolidates); the idle slots of a host go to the smallest job on
    it, one at a time. Only pairs of jobs of equal size are packed, and they are found by trial,
    while Gandiva considers how busy a device is. The growth of a job is not undone if it does not
    help.

    A job that lost some of its workers continues with the others, on their slots, until it is next
    suspended.

    Checked: ``described``; the turns against a plan that is built from nothing at every event,
    packing by hand and by its invariants.

    Raises:
        ValueError: an option is out of its range.
    """

    checked: ClassVar[str] = "described"
    needs: frozenset[Knowledge] = frozenset()
    wants_progress = False

    def __init__(
        self,
        quantum_s: float = 60.0,
        migrate: bool = True,
        grow_after_s: float | None = None,
        pack_above: float | None = None,
    ) -> None:
        if grow_after_s is not None and not 0.0 < grow_after_s < math.inf:
            raise ValueError(
                f"grow_after_s is {grow_after_s}; give seconds above 0, or null for never"
            )
        if pack_above is not None and not 0.0 <= pack_above < 2.0:
            raise ValueError(
                f"pack_above is {pack_above}; give the sum that a pair's relative speeds (shared "
                "over alone) must exceed, from 0 to below 2, or null to pack no jobs"
            )
        self._rounds = Rounds(quantum_s, "quantum_s")
        self._migrate = migrate
        self._grow_after_s = grow_after_s
        requires = {Requirement.SUSPEND}
        if migrate:
            requires.add(Requirement.MIGRATE)
        if grow_after_s is not None:
            requires.add(Requirement.RESCALE)
        if pack_above is not None:
            requires |= {Requirement.MIGRATE, Requirement.SHARE_DEVICE}
        self.requires = frozenset(requires)
        self._plan = GangPlan()
        self._planned: dict[str, Key] = {}
        self._idle_since_s: float | None = None
        self._packs = pack_above is not None
        self._packing = Packing(math.inf if pack_above is None else pack_above)

    def decide(self, view: ClusterView) -> Decision:
        """Give turns; if no job waits for a turn, use the idle slots."""
        now_s = view.time_s
        changes = refusals(view, self._look_again)
        is_round = self._rounds.begins(view)
        parted = self._look_at_pairs(view, is_round)
        changes |= dict.fromkeys(parted, Suspend())
        if len(self._plan.waiting):
            changes |= self._take_turns(view, is_round)
        for job_id in parted:
            job = view.jobs[job_id]
            self._plan.waiting.put(_waiting(job, now_s if job.slots else None))
        if not changes and not view.in_flight:
            changes |= self._use_idle(view)
        if len(self._plan.waiting) or self._packing.guests:
            self._idle_since_s = None
            return Decision(changes, self._rounds.wake(now_s))
        return Decision(changes, self._when_to_grow(view, changes))

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Update one job from the view."""
        job = view.jobs.get(job_id)
        is_guest = job_id in self._packing.guests
        if is_guest and job is not None and job.grant is not None:
            return None
        before = self._planned.pop(job_id, None)
        known = is_guest or before is not None or job_id in self._plan.waiting
        self._plan.waiting.discard(job_id)
        if job is None or job.grant is None:
            self._leave_partner(job_id, for_good=job is not None)
        if job is None:
            self._packing.forget(job_id)
            return None
        if not known:
            refusal = refuse_misfit(job.spec, gang_slots(job.spec), view.cluster)
            if refusal is not None:
                return refusal
        if job.grant is None:
            self._plan.waiting.put(_waiting(job))
        else:
            since_s = view.time_s if before is None else -before.rank
            self._planned[job_id] = in_turn(job, since_s, job.grant.num_slots)
        return None

    def _leave_partner(self, job_id: str, *, for_good: bool) -> None:
        """Record that a job has left its devices; a job that shared them has them alone now."""
        guest_id = self._packing.guest_of(job_id)
        if job_id in self._packing.guests:
            self._packing.part(job_id, for_good=for_good)
        elif guest_id is not None:
            self._planned[guest_id] = self._packing.part(guest_id, for_good=for_good)

    def _look_at_pairs(self, view: ClusterView, is_round: bool) -> list[str]:
        """End pairs that are not worth it or are no longer together; return the jobs that must
        leave.

        In a round, also measure the speed of jobs that are alone.
        """
        if not (self._packs and view.cluster.shared_speed):
            return []
        leaving = []
        for guest_id, (host_id, key) in list(self._packing.guests.items()):
            guest, host = view.jobs[guest_id], view.jobs[host_id]
            devices = promised_devices(view, guest)
            is_whole = devices == promised_devices(view, host) and len(devices) == key.num_slots
            is_possible = not (is_cut_off(view, guest) or is_cut_off(view, host))
            if is_whole and is_possible:
                if is_round and not self._packing.is_worth_it(guest, host):
                    self._packing.part(guest_id, for_good=True)
                    leaving.append(guest_id)
                continue
            # One of the jobs lost workers, or cannot get the slots it was granted.
            self._packing.part(guest_id, for_good=is_possible)
            if is_cut_off(view, host):
                del self._planned[host_id]
                leaving.append(host_id)
                self._planned[guest_id] = key
            elif guest.slots and devices.isdisjoint(promised_devices(view, host)):
                self._planned[guest_id] = key
            else:
                leaving.append(guest_id)
        for job_id in [one for one in self._planned if not self._packing.is_paired(one)]:
            job = view.jobs[job_id]
            if is_cut_off(view, job):
                del self._planned[job_id]
                leaving.append(job_id)
            elif is_round:
                self._packing.measure(job)
        return leaving

    def _take_turns(self, view: ClusterView, is_round: bool) -> dict[str, Grant | Suspend | Refuse]:
        """Find slots for waiting jobs: free or borrowed slots; in a round also slots of other
        jobs."""
        changes: dict[str, Grant | Suspend | Refuse] = {}
        free = view.num_free
        if self._packs:
            turns = sum(key.num_slots for key in self._planned.values())
            free = usable_devices(view) - turns
        for job_id, key in self._planned.items():
            num_slots = gang_slots(view.jobs[job_id].spec)
            if key.num_slots > num_slots:
                free += key.num_slots - num_slots
                changes[job_id] = Grant(num_slots)
                key = key._replace(num_slots=num_slots)
            self._planned[job_id] = key._replace(level=_DONE if is_round else IN_TURN)
        self._plan.planned[:] = sorted(self._planned.values())
        # Slots that went down make this negative. Between rounds no job is suspended for that.
        started, evicted = self._plan.repair(free if is_round else max(free, 0))
        for key in evicted:
            del self._planned[key.job_id]
        guests = [self._packing.guest_of(key.job_id) for key in evicted]
        leaving = [*evicted, *(self._packing.part(guest) for guest in guests if guest is not None)]
        for key in leaving:
            self._plan.waiting.put(_waiting(view.jobs[key.job_id], view.time_s))
            changes[key.job_id] = Suspend()
        for key in started:
            job = view.jobs[key.job_id]
            self._planned[key.job_id] = in_turn(job, view.time_s, key.num_slots)
            changes[key.job_id] = Grant(key.num_slots)
        if is_round and self._packs and view.cluster.shared_speed:
            leaving.sort(key=lambda key: key[1:])
            planned = sorted(self._planned.values(), key=lambda key: key[1:])
            waiting = self._plan.waiting
            grants = self._packing.pack(view, started, leaving, planned, waiting)
            for job_id in self._packing.guests:
                waiting.discard(job_id)
                changes.pop(job_id, None)
            changes |= grants
        return changes

    def _use_idle(self, view: ClusterView) -> dict[str, Grant]:
        """Move jobs together or let them grow, if every job is on the slots it was granted."""
        jobs = [view.jobs[job_id] for job_id in (*self._planned, *self._packing.guests)]
        if any(job.grant is None or len(job.slots) != job.grant.num_slots for job in jobs):
            return {}
        if changes := self._unpack(view):
            return changes
        jobs = [job for job in jobs if not self._packing.is_paired(job.job_id)]
        jobs.sort(key=lambda job: job.spec.order)
        whole = [job for job in jobs if len(job.slots) >= gang_slots(job.spec)]
        changes = moved(view, whole) if self._migrate else {}
        if changes or self._grow_after_s is None or len(self._plan.waiting):
            return changes
        since_s = self._idle_since_s
        if since_s is None or view.time_s < since_s + self._grow_after_s:
            return {}
        changes = grown(view, jobs)
        for job_id, grant in changes.items():
            self._planned[job_id] = self._planned[job_id]._replace(num_slots=grant.num_slots)
        return changes

    def _unpack(self, view: ClusterView) -> dict[str, Grant]:
        """Move guests to idle devices, the longest started first."""
        changes: dict[str, Grant] = {}
        keys = [guest.key for guest in self._packing.guests.values()]
        free = free_by_host(view) if keys else []
        for key in sorted(keys, key=lambda key: (-key.rank, key.arrival_s, key.job_id)):
            slots = taken_from(free, key.num_slots)
            if slots is not None:
                self._planned[key.job_id] = self._packing.part(key.job_id)
                changes[key.job_id] = Grant(key.num_slots, slots=slots)
        return changes

    def _when_to_grow(
        self, view: ClusterView, changes: dict[str, Grant | Suspend | Refuse]
    ) -> float | None:
        """Record the time since which slots are idle; return the time at which jobs may grow."""
        if self._grow_after_s is None:
            return None
        taken = sum(key.num_slots for key in self._planned.values())
        if taken >= usable_devices(view):
            self._idle_since_s = None
            return None
        if self._idle_since_s is None or changes:
            self._idle_since_s = view.time_s
        due_s = self._idle_since_s + self._grow_after_s
        return due_s if due_s > view.time_s else None


def _waiting(job: JobView, since_s: float | None = None) -> Key:
    """Return the sort key of a job that waits for a turn: the longest waiting first."""
    since_s = job.waiting_since_s if since_s is None else since_s
    return Key(_WAITING, since_s, job.spec.arrival_s, job.job_id, gang_slots(job.spec))

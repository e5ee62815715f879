"""Elastic-Tiresias: Tiresias's plan, then jobs are compacted or expanded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import ClassVar

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.job_state import JobState
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.attained_service.compaction import Compaction, Donor, Move
from systems.schedulers.attained_service.service_groups import ServiceGroups
from systems.schedulers.common.gang import gang_slots
from systems.schedulers.common.news import touched
from systems.schedulers.common.slot_claims import SlotClaims, grant_of
from systems.schedulers.common.speed_tables import SpeedTables, speed_kind
from systems.schedulers.common.waiting import Key
from systems.schedulers.common.waiting_kinds import WaitingKinds

_Kind = tuple[object, ...]


POSTPONED_S = 1.0
"""Seconds until a job is tried again that could not start because it still held other slots."""


class ElasticTiresias:
    """Tiresias with elastic jobs: running jobs give slots to waiting jobs or take idle slots.

    Every decision repairs Tiresias's plan (P, the requested slots, for each job that starts) and
    then does one of three things:

    - More than ``compact_above`` jobs wait: *compaction*. For each waiting job, best first, slots
      are taken from elastic running jobs outside group 0 so that the gain in GPU efficiency is
      greatest (``Compaction``). No running job falls below ``max(1, ceil(least_share * P))``. If
      the gain is above 0, the waiting job starts on these slots.
    - No job waits: *expansion*. While a slot is free, it goes to the elastic running job with the
      greatest relative gain ``S(p + 1) / S(p) - 1``, ties by arrival. No job gets a slot at a gain
      of 0.
    - Otherwise sizes stay.

    The gain of an expansion is that of the throughput curve at that number of slots, whichever slot
    is free, since schedulers see no curve by hosts. Algorithm 1 has S(p + 1) with that very slot. A
    compaction has the greatest gain if the request fits into a host. For a wider request it takes
    hosts in the order of how many slots they can give, then of the loss. Its gain is then not
    always the greatest (``Compaction`` says how near it is).

    Jobs that are not elastic are never resized. A waiting job that is not elastic may be started by
    compaction, on exactly the slots it requested.

    ``queue_limits_slot_s``, ``promote_after``: see ``Tiresias`` (paper: 500 and 10,000).
    ``compact_above``: N, jobs (paper: 10). ``least_share``: r, a share of P (paper: 0.5).

    Source: Wu et al., EDL, section 5.1, Algorithm 1 and footnote 4 (the hosts that a compaction may
    use). The paper leaves these open; chosen here:
    - The gain, called only "in GPU efficiency", is the change in the sum of p * E(p).
    - Compactions use free slots too.
    - In the next plan a job counts with the slots it holds, but at most with P. So compacted jobs
      stay compacted until they are expanded or suspended.
    - Slots above P are freed for the plan before any job is suspended, slots with the least
      relative gain first.
    - A job whose slots the plan has just taken may be compacted too, and then moves.
    Differs from the printed algorithm, whose expansion does not end. This scheduler names exact
    slots, chosen as ``consolidated`` does, since the hosts matter; so the placement is not asked.

    Checked: ``compared``, with a version that computes everything from nothing at every event
    (``tests/schedulers/naive_elastic_tiresias.py``), and compactions with brute force: compactions
    within one host have the greatest gain; compactions on several hosts have the greatest gain on
    the hosts that they take.
    """

    checked: ClassVar[str] = "compared"
    needs: frozenset[Knowledge] = frozenset({Knowledge.THROUGHPUT})
    requires: frozenset[Requirement] = frozenset(
        {Requirement.SUSPEND, Requirement.RESCALE, Requirement.MIGRATE}
    )
    wants_progress = False

    def __init__(
        self,
        queue_limits_slot_s: Sequence[float] = (500.0, 10_000.0),
        promote_after: float | None = None,
        compact_above: int = 10,
        least_share: float = 0.5,
    ) -> None:
        problems = []
        if compact_above < 0:
            problems.append(f"compact_above is {compact_above}; give a number of jobs from 0 on")
        if not 0.0 <= least_share <= 1.0:
            problems.append(f"least_share is {least_share}; give a share from 0 to 1")
        if problems:
            raise ValueError("\n".join(problems))
        self._compact_above = compact_above
        self._least_share = least_share
        self._waiting = WaitingKinds(self._kind_of)
        self._groups = ServiceGroups(queue_limits_slot_s, promote_after, waiting=self._waiting)
        self._claims: SlotClaims | None = None
        self._compaction: Compaction
        self._tables: SpeedTables
        self._extra: dict[str, int] = {}
        """Slots above P, for the jobs that have any."""
        self._view: ClusterView
        self._resized: dict[str, None] = {}
        self._moving: dict[str, None] = {}
        """Jobs that move: they give up slots and get others."""
        self._has_postponed = False

    def decide(self, view: ClusterView) -> Decision:
        """Repair the plan, then compact or expand."""
        self._view = view
        claims = self._claims_on(view)
        self._resized.clear()
        changes = self._groups.follow(view)
        broken = claims.follow(view)
        for job_id in touched(view):
            self._note_extra(job_id)
        self._moving = {
            job_id: None
            for job_id in self._moving
            if job_id in view.jobs
            and claims.of(job_id)
            and set(claims.of(job_id)) != set(view.jobs[job_id].slots)
        }
        for job_id in broken:
            self._mend(job_id, claims)
        for job_id in self._groups.regroup(view):
            hosts = view.cluster.host_of
            claims.changed_hosts.update(hosts[slot] for slot in claims.of(job_id))
        self._has_postponed = False
        self._replan(claims)
        if len(self._waiting) > self._compact_above:
            self._compact(claims)
        elif not self._waiting:
            self._expand(claims)
        self._untangle(claims)
        changes |= self._changes(claims)
        wake_s = self._groups.next_wake(view.time_s)
        if self._has_postponed:
            wake_s = min(wake_s or math.inf, view.time_s + POSTPONED_S)
        return Decision(changes, wake_s)

    def _claims_on(self, view: ClusterView) -> SlotClaims:
        if self._claims is None:
            self._claims = SlotClaims(view.cluster)
            self._tables = SpeedTables(view.cluster.num_slots)
            self._compaction = Compaction(view.cluster, self._claims, self._donor)
        return self._claims

    def _job(self, job_id: str) -> JobView:
        return self._view.jobs[job_id]

    def _least(self, job: JobView) -> int:
        """Return the fewest slots that compaction leaves to the job, or on which it starts the
        job."""
        gang = gang_slots(job.spec)
        if not job.spec.elastic:
            return gang
        return max(1, job.spec.min_slots, math.ceil(self._least_share * gang))

    def _kind_of(self, key: Key) -> _Kind:
        """Return the properties that decide whether and how compaction can serve a waiting job."""
        spec = self._job(key.job_id).spec
        return (*speed_kind(spec), key.num_slots, spec.elastic)

    def _donor(self, job_id: str) -> Donor | None:
        entry = self._groups.jobs[job_id]
        job = self._job(job_id)
        least = self._least(job)
        if entry.key.level == 0 or not job.spec.elastic or entry.num_slots <= least:
            return None
        return Donor(self._tables.of(job).worth, entry.num_slots, least, entry.key)

    def _mend(self, job_id: str, claims: SlotClaims) -> None:
        """Grant the job the remaining slots of a broken promise, or withdraw the promise."""
        left = claims.of(job_id)
        held = self._job(job_id).slots
        if held and set(held) <= set(left):
            self._resize(job_id, len(left), claims)
        elif self._groups.jobs[job_id].planned:
            self._withdraw(job_id, claims)

    def _withdraw(self, job_id: str, claims: SlotClaims) -> None:
        """Take a planned job out of the plan."""
        claims.set(job_id, ())
        self._groups.withdraw(self._view, job_id)
        self._note(job_id)

    def _resize(self, job_id: str, num_slots: int, claims: SlotClaims) -> None:
        """Give a planned job another number of slots."""
        claims.resize(job_id, num_slots)
        self._groups.resized(self._view, job_id, num_slots)
        self._note(job_id)

    def _note(self, job_id: str) -> None:
        self._resized[job_id] = None
        self._note_extra(job_id)

    def _note_extra(self, job_id: str) -> None:
        job = self._groups.jobs.get(job_id)
        if job is not None and job.planned and job.num_slots > job.gang:
            self._extra[job_id] = job.num_slots - job.gang
        else:
            self._extra.pop(job_id, None)

    def _replan(self, claims: SlotClaims) -> None:
        """Start and suspend jobs by priority, as Tiresias does; slots above P count as free."""
        free = claims.num_free + sum(self._extra.values())
        started, evicted = self._groups.plan.repair(free)
        for key in evicted:
            self._groups.stopped(self._view, key.job_id)
            claims.set(key.job_id, ())
            self._note(key.job_id)
        self._take_back(sum(key.num_slots for key in started) - claims.num_free, claims)
        for key in started:
            self._groups.started(self._view, key.job_id)
            claims.resize(key.job_id, key.num_slots)
            self._note(key.job_id)

    def _take_back(self, num_slots: int, claims: SlotClaims) -> None:
        """Free slots above P, one at a time, each from the job whose last slot gains least."""
        if num_slots <= 0:
            return
        sizes = {job_id: self._groups.jobs[job_id].num_slots for job_id in self._extra}
        ranked = sorted(sizes, key=lambda job_id: self._job(job_id).spec.order, reverse=True)
        heap = [
            (self._tables.of(self._job(job_id)).gain(sizes[job_id] - 1), index)
            for index, job_id in enumerate(ranked)
        ]
        heapify(heap)
        reduced: dict[str, None] = {}
        for _ in range(num_slots):
            _, index = heap[0]
            job_id = ranked[index]
            sizes[job_id] -= 1
            reduced[job_id] = None
            if sizes[job_id] > self._groups.jobs[job_id].gang:
                gain = self._tables.of(self._job(job_id)).gain(sizes[job_id] - 1)
                heapreplace(heap, (gain, index))
            else:
                heappop(heap)
        for job_id in reduced:
            self._resize(job_id, sizes[job_id], claims)

    def _compact(self, claims: SlotClaims) -> None:
        """Compact running jobs (Algorithm 1, lines 1 to 6)."""
        heads = [(key, kind) for kind, key in self._waiting.heads()]
        heapify(heads)
        while heads:
            self._compaction.refresh()
            if self._compaction.is_exhausted:
                return
            key, kind = heappop(heads)
            job = self._job(key.job_id)
            move = self._compaction.best(
                self._tables.of(job).worth, self._least(job), key.num_slots
            )
            if move is None:
                continue  # no other job of the same kind can be served either
            self._move(key, move, claims)
            following = self._waiting.head_of(kind)
            if following is not None:
                heappush(heads, (following, kind))

    def _move(self, key: Key, move: Move, claims: SlotClaims) -> None:
        """Start a job on the slots that other jobs give."""
        left = {donor: claims.of(donor) for _, donor in move.slots if donor is not None}
        for slot, donor in move.slots:
            if donor is not None:
                left[donor] = tuple(one for one in left[donor] if one != slot)
        for donor, slots in left.items():
            claims.set(donor, slots)
            self._groups.resized(self._view, donor, len(slots))
            self._note(donor)
        claims.set(key.job_id, sorted(slot for slot, _ in move.slots))
        self._groups.plan.plan(key)
        self._groups.started(self._view, key.job_id, len(move.slots))
        self._note(key.job_id)

    def _expand(self, claims: SlotClaims) -> None:
        """Expand running jobs (Algorithm 1, lines 7 to 13)."""
        free = claims.num_free
        if free <= 0:
            return
        sizes: dict[str, int] = {}
        heap = []
        for key in self._groups.plan.planned:
            job = self._job(key.job_id)
            if job.spec.elastic:
                sizes[key.job_id] = self._groups.jobs[key.job_id].num_slots
                gain = self._tables.of(job).gain(sizes[key.job_id])
                if gain > 0.0:
                    heap.append((-gain, job.spec.order, key.job_id))
        heapify(heap)
        grown: dict[str, None] = {}
        while free > 0 and heap:
            _, order, job_id = heap[0]
            sizes[job_id] += 1
            free -= 1
            grown[job_id] = None
            gain = self._tables.of(self._job(job_id)).gain(sizes[job_id])
            if gain > 0.0:
                heapreplace(heap, (-gain, order, job_id))
            else:
                heappop(heap)
        for job_id in grown:
            self._resize(job_id, sizes[job_id], claims)

    def _untangle(self, claims: SlotClaims) -> None:
        """Prevent moves in which jobs wait for each other's slots.

        A moving job gives up its old slots only when it has the new ones, so a cycle of such jobs
        would never end. Therefore no moving job waits for slots that an earlier moving job holds. A
        job that would do so keeps as many of its own slots as it may, or waits; it is tried again
        soon.
        """
        for job_id in sorted(self._resized, key=lambda one: self._groups.jobs[one].key):
            job, claim = self._job(job_id), set(claims.of(job_id))
            held = set(job.slots)
            if held <= claim or claim <= held or job.state is JobState.SUSPENDING:
                continue
            others = (self._job(other) for other in self._moving if other != job_id)
            if not any(set(other.slots) & (claim - held) for other in others):
                self._moving[job_id] = None
                continue
            self._has_postponed = True
            kept = tuple(slot for slot in claims.of(job_id) if slot in held)
            if job.spec.elastic and len(kept) >= max(1, job.spec.min_slots):
                claims.set(job_id, kept)
                self._groups.resized(self._view, job_id, len(kept))
                self._note(job_id)
            else:
                self._withdraw(job_id, claims)

    def _changes(self, claims: SlotClaims) -> dict[str, Grant | Suspend | Refuse]:
        """Return the changes of the claims: jobs that give slots come before jobs that take."""
        gives: dict[str, Grant | Suspend | Refuse] = {}
        takes: list[tuple[Key, Grant]] = []
        for job_id in self._resized:
            job, claim = self._job(job_id), claims.of(job_id)
            if not claim:
                if job.grant is not None:
                    gives[job_id] = Suspend()
                continue
            grant = grant_of(job, claim)
            if grant is None:
                continue
            if job.grant is not None and len(claim) < job.grant.num_slots:
                gives[job_id] = grant
            else:
                takes.append((self._groups.jobs[job_id].key, grant))
        return gives | {key.job_id: grant for key, grant in sorted(takes)}

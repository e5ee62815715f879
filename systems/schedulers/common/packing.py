"""Packing: pairs of jobs that share devices, and the measured benefit of sharing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from harness.contracts.decision import Grant
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import gang_slots
from systems.schedulers.common.waiting import Key, WaitingJobs

IN_TURN = 0
"""Level of a job in the middle of a turn."""
_SHARE = 0.5
"""Share of its devices that a job gets if it is placed next to another job."""


def in_turn(job: JobView, since_s: float, num_slots: int) -> Key:
    """Return the sort key of a job that has a turn: the last started job comes first."""
    return Key(IN_TURN, -since_s, job.spec.arrival_s, job.job_id, num_slots)


class Guest(NamedTuple):
    """A job that shares the devices of another job's turn."""

    host_id: str
    """Id of the job whose turn it is."""
    key: Key
    """Sort key of the guest among the jobs that have a turn, for the case that the other job
    ends."""


class Packing:
    """Pairs of jobs on the same devices: each job of a pair has one slot of every device.

    Only jobs with equally many slots are paired, on all of their devices, so all devices of a pair
    hold the same two jobs. The speed alone of both must be known: the last speed measured at a
    job's own size before it first shared a device.
    """

    def __init__(self, above: float) -> None:
        """Start without any pair.

        ``above``: a pair is worth it if the sum of its relative speeds (shared over alone) is
        larger.
        """
        self._above = above
        self.guests: dict[str, Guest] = {}
        self._guest_of: dict[str, str] = {}
        """Guest by the id of the host (the job that has the turn)."""
        self._alone: dict[str, float] = {}
        """Speed alone, samples per second, of every measured job."""
        self._has_shared: set[str] = set()
        self._apart: dict[str, set[str]] = {}
        """For each job, the jobs with which it must not be paired again."""

    def is_paired(self, job_id: str) -> bool:
        """Return whether a job belongs to a pair."""
        return job_id in self.guests or job_id in self._guest_of

    def guest_of(self, job_id: str) -> str | None:
        """Return the guest of this host, or None."""
        return self._guest_of.get(job_id)

    def join(self, host_id: str, key: Key) -> None:
        """Make the job with this key the guest of a host."""
        self.guests[key.job_id] = Guest(host_id, key)
        self._guest_of[host_id] = key.job_id
        self._has_shared.update((host_id, key.job_id))

    def part(self, guest_id: str, *, for_good: bool = False) -> Key:
        """End a pair and return the guest's own key; ``for_good``: never pair the two again."""
        guest = self.guests.pop(guest_id)
        del self._guest_of[guest.host_id]
        if for_good:
            self._apart.setdefault(guest_id, set()).add(guest.host_id)
            self._apart.setdefault(guest.host_id, set()).add(guest_id)
        return guest.key

    def forget(self, job_id: str) -> None:
        """Forget a job that has ended."""
        self._alone.pop(job_id, None)
        self._has_shared.discard(job_id)
        for other in self._apart.pop(job_id, ()):
            self._apart[other].discard(job_id)

    def measure(self, job: JobView) -> None:
        """Record the speed of a job that trains at its own size and has never shared a device."""
        is_whole = len(job.slots) == gang_slots(job.spec)
        if is_whole and job.samples_per_s > 0.0 and job.job_id not in self._has_shared:
            self._alone[job.job_id] = job.samples_per_s

    def may_share(self, one: JobView, other: JobView) -> bool:
        """Return whether two jobs may be paired, wherever they are."""
        return (
            gang_slots(one.spec) == gang_slots(other.spec)
            and one.job_id in self._alone
            and other.job_id in self._alone
            and other.job_id not in self._apart.get(one.job_id, ())
        )

    def is_worth_it(self, guest: JobView, host: JobView) -> bool:
        """Return whether a pair does more together than in turns, or cannot be judged yet."""
        speeds = guest.samples_per_s, host.samples_per_s
        if 0.0 in speeds:
            return True  # one of the jobs is not training yet, or is stopped for a change
        alone = self._alone[guest.job_id], self._alone[host.job_id]
        return speeds[0] / alone[0] + speeds[1] / alone[1] > self._above

    def pack(
        self,
        view: ClusterView,
        started: Sequence[Key],
        leaving: Sequence[Key],
        planned: Sequence[Key],
        waiting: WaitingJobs,
    ) -> dict[str, Grant]:
        """Make guests of jobs that would wait; return the grants of jobs that share devices.

        Args:
            view: view of this round.
            started: jobs that get a turn now and have no slots yet; best first.
            leaving: jobs whose turn is over; earlier ones in the list stay first.
            planned: all jobs that have a turn, with ``started``; earlier ones in the list get a
                guest first.
            waiting: jobs that have no turn, with ``leaving``.
        """
        grants: dict[str, Grant] = {}
        taken = _slots_of_others(view, {key.job_id for key in leaving})
        for key in started:
            for old in leaving:
                slots = self._room_beside(view, key.job_id, old.job_id, taken)
                if slots is not None and old.job_id not in self.guests:
                    grants[key.job_id] = Grant(len(slots), slots=slots, share=_SHARE)
                    self.join(key.job_id, old._replace(level=IN_TURN))
                    taken.update(view.jobs[old.job_id].slots)
                    break
        alone: dict[int, list[str]] = {}
        for key in planned:
            if not self.is_paired(key.job_id):
                alone.setdefault(key.num_slots, []).append(key.job_id)
        keys = (waiting.key_of(job_id) for job_id in self._alone if job_id not in self.guests)
        for key in sorted(key for key in keys if key is not None):
            for host_id in alone.get(key.num_slots, ()):
                slots = self._room_beside(view, key.job_id, host_id, taken)
                if slots is not None:
                    grants[key.job_id] = Grant(len(slots), slots=slots, share=_SHARE)
                    self.join(host_id, in_turn(view.jobs[key.job_id], view.time_s, len(slots)))
                    alone[key.num_slots].remove(host_id)
                    break
        return grants

    def _room_beside(
        self, view: ClusterView, job_id: str, host_id: str, taken: Collection[int]
    ) -> tuple[int, ...] | None:
        """Return slots for a job on another job's devices; None if they may not share or no slots
        are free."""
        job, host = view.jobs[job_id], view.jobs[host_id]
        return _slots_beside(view, host, taken) if self.may_share(job, host) else None


def usable_devices(view: ClusterView) -> int:
    """Return the number of devices with a slot that is up."""
    down = view.down_slots
    devices = view.cluster.devices
    if not down:
        return len(devices)
    return sum(any(slot not in down for slot in slots) for slots in devices)


def promised_devices(view: ClusterView, job: JobView) -> set[int]:
    """Return the devices named in a job's grant; without names, the devices that it uses."""
    slots = job.grant.slots if job.grant is not None else None
    return {view.cluster.device_of[slot] for slot in slots or job.slots}


def is_cut_off(view: ClusterView, job: JobView) -> bool:
    """Return whether a job without slots waits for named slots, one of which went down."""
    slots = job.grant.slots if job.grant is not None else None
    return not job.slots and not view.down_slots.isdisjoint(slots or ())


def _slots_of_others(view: ClusterView, leaving: Collection[str]) -> set[int]:
    """Return the slots of jobs that stay: they do not leave now and were not told to leave."""
    return {
        slot
        for job in view.jobs.values()
        if job.grant is not None and job.job_id not in leaving
        for slot in job.slots
    }


def _slots_beside(
    view: ClusterView, host: JobView, taken: Collection[int]
) -> tuple[int, ...] | None:
    """Return a free slot on each device of the job ``host``, in the order of its slots.

    The result is None unless ``host`` has all slots that it requested and no change of it is in
    flight. It is None as well if another slot of these devices is ``taken``.
    """
    if host.grant is None or host.job_id in view.in_flight:
        return None
    if not len(host.slots) == host.grant.num_slots == gang_slots(host.spec):
        return None
    found = []
    for slot in host.slots:
        others = [one for one in view.cluster.devices[view.cluster.device_of[slot]] if one != slot]
        up = [one for one in others if one not in view.down_slots]
        if not up or any(one in taken for one in others):
            return None
        found.append(up[0])
    return tuple(found)

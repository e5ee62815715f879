"""YARN's capacity scheduler as EasyScale describes it: strict FIFO, gangs of one device type."""

from __future__ import annotations

from typing import ClassVar

from sortedcontainers import SortedDict

from harness.contracts.scheduler import (
    ClusterView,
    Decision,
    Grant,
    JobView,
    Knowledge,
    Refuse,
    Requirement,
    Suspend,
)
from systems.schedulers.gang import gang_slots, refuse_misfit
from systems.schedulers.news import touched


class YarnCs:
    """Jobs start in order of arrival, each on the slots it requested, all of one device type.

    Nobody overtakes, nothing is suspended or rescaled. Of the types with enough free slots the
    one on which the job is fastest is taken; ties: the first by name. A job that lost its slots
    queues again by its arrival; one that lost some of them goes on with the others to its end. A
    job that no type can hold is refused. On a cluster of one type it is ``fifo``.

    ``one_each``: a grant says that every slot runs one virtual worker, which is what a gang does.
    Simulations then reckon its speed as they do for EasyScale, from the speed of one slot and
    without communication, so that the two can be compared; otherwise it is that of the
    profile's curve.

    Source: EasyScale (SC '23), section 5.2: one tenant, one queue, equal priorities. Open there
    and chosen here: no backfilling, and which type.
    """

    checked: ClassVar[str] = "compared"
    needs: frozenset[Knowledge] = frozenset({Knowledge.THROUGHPUT})
    requires: frozenset[Requirement] = frozenset()
    wants_progress = False

    def __init__(self, one_each: bool = False) -> None:
        self._one_each = one_each
        self._waiting: SortedDict[tuple[float, str], str] = SortedDict()
        self._granted: dict[str, None] = {}

    def decide(self, view: ClusterView) -> Decision:
        """Start jobs until one does not fit."""
        changes: dict[str, Grant | Suspend | Refuse] = {}
        for job_id in touched(view):
            refusal = self._look_again(view, job_id)
            if refusal is not None:
                changes[job_id] = refusal
        free = self._free(view)
        changes |= self._withdraw(view, free)
        while self._waiting:
            order, job_id = self._waiting.peekitem(0)
            job = view.jobs[job_id]
            num_slots = gang_slots(job.spec)
            enough = [name for name, count in free.items() if count >= num_slots]
            if not enough:
                break
            del self._waiting[order]
            fastest = max(enough, key=lambda name: _speed(job, num_slots, name))
            free[fastest] -= num_slots
            self._granted[job_id] = None
            grant = self._grant(job, num_slots, fastest)
            if grant == job.grant:
                del changes[job_id]  # withdrawn above, and promised again just as it was
            else:
                changes[job_id] = grant
        return Decision(changes)

    def _grant(self, job: JobView, num_slots: int, device_type: str) -> Grant:
        workers = None
        if self._one_each and num_slots == job.spec.num_logical_workers:
            workers = (1,) * num_slots
        return Grant(num_slots, device_type=device_type, virtual_workers=workers)

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Put one job where the view says it belongs."""
        job = view.jobs.get(job_id)
        if job is None:
            self._granted.pop(job_id, None)
            for order in [order for order, one in self._waiting.items() if one == job_id]:
                del self._waiting[order]
        elif job.grant is not None:
            self._waiting.pop(job.spec.order, None)
            self._granted[job_id] = None
        elif job.spec.order not in self._waiting:
            self._granted.pop(job_id, None)
            if refusal := self._refusal(view, job):
                return refusal
            self._waiting[job.spec.order] = job_id
        return None

    def _refusal(self, view: ClusterView, job: JobView) -> Refuse | None:
        num_slots = gang_slots(job.spec)
        refusal = refuse_misfit(job.spec, num_slots, view.cluster)
        widest = max(_count_types(view, range(view.cluster.num_slots)).values())
        if refusal is None and num_slots > widest:
            return Refuse(
                f"the job needs {num_slots} slots at once of one device type, but cluster"
                f" {view.cluster.name!r} has at most {widest}; cap its demand or choose another"
                " cluster or scheduler"
            )
        return refusal

    def _free(self, view: ClusterView) -> dict[str, int]:
        """Slots of each type that are up and promised to nobody; below 0 where slots that were
        promised have gone down before their job had them."""
        up = [slot for slot in range(view.cluster.num_slots) if slot not in view.down_slots]
        free = _count_types(view, up)
        for job_id in self._granted:
            job = view.jobs[job_id]
            assert job.grant is not None
            if job.slots:
                for name, count in _count_types(view, job.slots).items():
                    free[name] -= count
            else:
                assert job.grant.device_type is not None
                free[job.grant.device_type] -= job.grant.num_slots
        return free

    def _withdraw(self, view: ClusterView, free: dict[str, int]) -> dict[str, Suspend]:
        """Take back promises that cannot be kept, of the latest arrivals first."""
        withdrawn: dict[str, Suspend] = {}
        unmet = [view.jobs[job_id] for job_id in self._granted if not view.jobs[job_id].slots]
        for job in sorted(unmet, key=lambda job: job.spec.order, reverse=True):
            assert job.grant is not None
            name = job.grant.device_type
            assert name is not None
            if free[name] < 0:
                free[name] += job.grant.num_slots
                del self._granted[job.job_id]
                self._waiting[job.spec.order] = job.job_id
                withdrawn[job.job_id] = Suspend()
        return withdrawn


def _speed(job: JobView, num_slots: int, device_type: str) -> float:
    assert job.throughput is not None, "declared in needs"
    return job.throughput.samples_per_s(num_slots, None, device_type)


def _count_types(view: ClusterView, slots: range | list[int] | tuple[int, ...]) -> dict[str, int]:
    counts = dict.fromkeys(view.cluster.device_types, 0)
    for slot in slots:
        counts[view.cluster.slots[slot].device_type] += 1
    return counts

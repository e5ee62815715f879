"""YARN's capacity scheduler as EasyScale describes it: strict FIFO, gangs of one device type."""

from __future__ import annotations

from typing import ClassVar

from sortedcontainers import SortedDict

from harness.contracts.decision import Decision, Grant, Refuse
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import gang_slots, refuse_misfit
from systems.schedulers.common.news import refusals


class YarnCs:
    """YARN-CS: jobs start in order of arrival, each on its requested slots, all of one device type.

    No job overtakes another, and nothing is suspended or rescaled. Among the types with enough free
    slots, the type on which the job is fastest is taken; ties: the first by name. A job that lost
    its slots queues again by its arrival; a job that lost some of them continues with the others to
    its end. A job that no type can hold is refused. On a cluster of one type it is ``fifo``.

    ``one_each``: a grant states that every slot runs one virtual worker, as in a gang. Simulations
    then compute the job's speed as for EasyScale, from the speed of one slot and without
    communication, so that the two schedulers can be compared. Otherwise the speed is that of the
    profile's curve.

    Source: EasyScale (SC '23), section 5.2: one tenant, one queue, equal priorities. Open there and
    chosen here: no backfilling, and the choice of the type.

    Checked: ``compared``: on one type with ``fifo``; on several by hand.
    """

    checked: ClassVar[str] = "compared"
    needs: frozenset[Knowledge] = frozenset({Knowledge.THROUGHPUT})
    requires: frozenset[Requirement] = frozenset()
    wants_progress = False

    def __init__(self, one_each: bool = False) -> None:
        self._one_each = one_each
        self._waiting: SortedDict[tuple[float, str], str] = SortedDict()
        self._orders: dict[str, tuple[float, str]] = {}
        self._granted: dict[str, None] = {}

    def decide(self, view: ClusterView) -> Decision:
        """Start jobs until a job does not fit."""
        changes = refusals(view, self._look_again)
        free = self._free(view)
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
            changes[job_id] = self._grant(job, num_slots, fastest)
        return Decision(changes)

    def _grant(self, job: JobView, num_slots: int, device_type: str) -> Grant:
        workers = None
        if self._one_each and num_slots == job.spec.num_logical_workers:
            workers = (1,) * num_slots
        return Grant(num_slots, device_type=device_type, virtual_workers=workers)

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Add one job to the waiting or the granted jobs, by its state in the view."""
        job = view.jobs.get(job_id)
        if job is None:
            self._granted.pop(job_id, None)
            self._waiting.pop(self._orders.pop(job_id, None), None)
        elif job.grant is not None:
            self._waiting.pop(job.spec.order, None)
            self._granted[job_id] = None
        elif job.spec.order not in self._waiting:
            self._granted.pop(job_id, None)
            if refusal := self._refusal(view, job):
                return refusal
            self._orders[job_id] = job.spec.order
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
        """Return the slots of each type that are up and granted to no job."""
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


def _speed(job: JobView, num_slots: int, device_type: str) -> float:
    assert job.throughput is not None, "throughput is declared in ``needs``"
    return job.throughput.samples_per_s(num_slots, None, device_type)


def _count_types(view: ClusterView, slots: range | list[int] | tuple[int, ...]) -> dict[str, int]:
    counts = dict.fromkeys(view.cluster.device_types, 0)
    for slot in slots:
        counts[view.cluster.slots[slot].device_type] += 1
    return counts

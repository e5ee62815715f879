"""Devices that jobs share in simulation: the jobs on each device, and their slow-down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.cluster import Cluster


class SharedDevices:
    """Workers that train on each device of a cluster with ``shared_speed``.

    A worker counts only while its job trains. It does not count while the job is stopped for a
    change, or before the worker has arrived.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._speed = cluster.shared_speed
        self._device_of = cluster.device_of
        self._workers: list[Counter[str]] = [Counter() for _ in cluster.devices]
        """Number of workers on each device, by job."""
        self._devices: dict[str, frozenset[int]] = {}
        """Devices of each job that trains."""

    def note(self, job_id: str, slots: Sequence[int]) -> frozenset[int]:
        """Set the slots on which a job trains from now on (empty: it stops), and return the devices
        whose workers that changes."""
        workers = self._count(slots)
        before = self._devices.pop(job_id, frozenset())
        if workers:
            self._devices[job_id] = frozenset(workers)
        changed = frozenset(
            device
            for device in before | workers.keys()
            if self._workers[device][job_id] != workers[device]
        )
        for device in changed:
            self._workers[device][job_id] = workers[device]
            self._workers[device] += Counter()  # drops jobs without workers there
        return changed

    def jobs_on(self, devices: Iterable[int]) -> set[str]:
        """Return the jobs that train on any of these devices."""
        return {job_id for device in devices for job_id in self._workers[device]}

    def factors(self, job_id: str, slots: Sequence[int]) -> list[float]:
        """Return, for each slot, the speed of this job's worker there over its speed alone."""
        own = self._count(slots)
        found = []
        for slot in slots:
            device = self._device_of[slot]
            here = self._workers[device]
            found.append(self._speed[here.total() - here[job_id] + own[device] - 1])
        return found

    def _count(self, slots: Sequence[int]) -> Counter[int]:
        return Counter(self._device_of[slot] for slot in slots)

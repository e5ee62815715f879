"""Leader's record of the workers that have connected to it, and of their own statements."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from systems.elastic.wire.messages import MemberStatus
from systems.elastic.wire.recovery_plan import Membership


class WorkerRegistry:
    """Workers' presence in one leader's term. The class decides nothing (``Coordinator``)."""

    def __init__(self, generation: int) -> None:
        """Begin a term without any worker; ``generation``: that of the leader."""
        self.here: set[str] = set()
        """Workers that have connected, and neither left nor died."""
        self.dead: set[str] = set()
        self.left: set[str] = set()
        """Workers that have left this leader in order."""
        self.receivers: dict[str, tuple[str, int]] = {}
        """Address and port where each prepared joiner receives the state."""
        self.entered: dict[str, int] = {}
        """Latest generation that each worker has entered, as far as this leader has heard."""
        self.heard = generation
        """Highest generation number that workers knew when they connected.

        A number above the present generation's was most likely given by an earlier leader.
        """
        self.announced = 0
        """Highest generation that a connecting worker had been told to switch to; 0: none."""
        self._standings: dict[str, Sequence[str]] = {}
        """Members of each worker's present generation, as far as this leader has heard."""

    def came(self, worker: str, status: MemberStatus) -> bool:
        """Record a worker's greeting. Return whether the worker was absent until then."""
        is_new = worker not in self.here
        self.here.add(worker)
        self.left.discard(worker)
        self._standings[worker] = status.members
        self.heard = max(self.heard, status.highest)
        self.announced = max(self.announced, status.announced)
        if status.receiver is not None:
            self.receivers[worker] = status.receiver
        return is_new

    def switched(self, worker: str, generation: int, membership: Membership) -> None:
        """Record that a worker works in a generation now."""
        self._standings[worker] = membership.members
        self.entered[worker] = max(generation, self.entered.get(worker, 0))

    def parted(self, worker: str) -> None:
        """Record that a worker has left this leader in order."""
        self.here.discard(worker)
        self.left.add(worker)

    def died(self, workers: Collection[str]) -> set[str]:
        """Record deaths. Return the workers whose death was not known yet."""
        new = set(workers) - self.dead
        self.dead |= new
        self.here -= new
        return new

    def missing(self, generation: int, members: Sequence[str]) -> set[str]:
        """Return the members of a generation that have not connected.

        The answer is empty until a worker connects that has entered the generation. Founders that
        have not met yet may take as long as a start may.
        """
        has_begun = any(self.entered.get(worker) == generation for worker in self.here)
        return set(members) - self.here - self.dead if has_begun else set()

    def awaited(self, members: Collection[str]) -> set[str]:
        """Return the members that are still to connect: they may know more than this leader."""
        return set(members) - self.here - self.dead - self.left

    def are_hurt(self, workers: Collection[str], dead: Collection[str]) -> bool:
        """Return whether one of these workers needs a recovery because of these dead.

        That is so if its present generation contains a dead worker. It is also so if the worker
        has no generation yet, since a dead worker may be its donor.
        """
        if not dead:
            return False
        staying = [self._standings[worker] for worker in self.here.intersection(workers)]
        return any(not standing or not set(dead).isdisjoint(standing) for standing in staying)

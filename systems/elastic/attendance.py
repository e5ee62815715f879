"""Who has come to the leader of an elastic job, and what each has said of itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from systems.elastic.recovery import Membership
from systems.runtime.control import Message


class Attendance:
    """Of one leader's term. It decides nothing (``coordinator``)."""

    def __init__(self, generation: int) -> None:
        """Nobody has come yet; ``generation``: in which the leader trains."""
        self.here: set[str] = set()
        """Who has come, and neither left nor died."""
        self.dead: set[str] = set()
        self.left: set[str] = set()
        """Who has parted from this leader in order."""
        self.receivers: dict[str, tuple[str, int]] = {}
        """Where a worker takes the state, of those that are prepared to."""
        self.entered: dict[str, int] = {}
        """The latest generation that each worker has entered, as far as this leader has heard."""
        self.heard = generation
        """The highest number that workers had heard of when they came: where it is above the
        present generation's, a leader before this one had most likely given it."""
        self.announced = 0
        """The highest generation that one who has come had been told to switch to."""
        self._standings: dict[str, Sequence[str]] = {}
        """With whom each worker trains, as far as this leader has heard."""

    def came(self, worker: str, status: Message) -> bool:
        """A worker has connected with this greeting; whether for the first time."""
        is_new = worker not in self.here
        self.here.add(worker)
        self.left.discard(worker)
        self._standings[worker] = status["members"]
        self.heard = max(self.heard, status["highest"])
        self.announced = max(self.announced, status["announced"])
        if status["prepared"]:
            self.receivers[worker] = (status["address"], status["port"])
        return is_new

    def switched(self, worker: str, generation: int, membership: Membership) -> None:
        """A worker works in this generation now."""
        self._standings[worker] = membership.members
        self.entered[worker] = max(generation, self.entered.get(worker, 0))

    def parted(self, worker: str) -> None:
        """A worker has left in order."""
        self.here.discard(worker)
        self.left.add(worker)

    def died(self, workers: Collection[str]) -> set[str]:
        """Workers have died; of whom that was not known yet."""
        new = set(workers) - self.dead
        self.dead |= new
        self.here -= new
        return new

    def missing(self, generation: int, members: Sequence[str]) -> set[str]:
        """Of the members of a generation, who has not come, once one has that has entered it:
        founders who have not met yet may need as long as a start may take."""
        has_begun = any(self.entered.get(worker) == generation for worker in self.here)
        return set(members) - self.here - self.dead if has_begun else set()

    def awaited(self, members: Collection[str]) -> set[str]:
        """Of these, who has neither come nor gone: they may know more than this leader."""
        return set(members) - self.here - self.dead - self.left

    def are_hurt(self, workers: Collection[str], dead: Collection[str]) -> bool:
        """Whether one of these, that is to go on, has not parted from these dead yet, or is
        only just coming: its donor may be one of them."""
        if not dead:
            return False
        staying = [self._standings[worker] for worker in self.here.intersection(workers)]
        return any(not standing or not set(dead).isdisjoint(standing) for standing in staying)

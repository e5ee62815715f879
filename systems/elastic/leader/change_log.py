"""Leader's record of the changes that the job's driver asks for."""

from __future__ import annotations

from systems.elastic.leader.actions import Answer
from systems.elastic.wire.messages import AdjustFailed, AdjustKept, AdjustRetry


class Changes:
    """Changes that one leader has heard of in its term; the one under way is an ``Adjustment``.

    The driver asks each new leader again and numbers these attempts. An answer bears the last
    attempt that this leader has heard, so that the driver can ignore answers of earlier leaders.
    """

    def __init__(self) -> None:
        """Begin a term without any change."""
        self.done: set[int] = set()
        """Changes that were made."""
        self._placed: set[int] = set()
        """Changes made of which this leader knows the generation that they led to."""
        self.postponed: int | None = None
        """Change that a recovery decides about: an earlier leader may have made it."""
        self.deferred: tuple[int, str, int] | None = None
        """Withdrawal that waits until all members have connected: id, reason and attempt.

        One of the members may know that the change was made.
        """
        self._asked: set[int] = set()
        self._attempts: dict[int, int] = {}
        self._withdrawn: set[int] = set()
        """Changes that the driver no longer wants."""
        self._failed: dict[int, str] = {}
        """Reasons for the failed changes that the driver was told of."""

    def heard(self, change_id: int, attempt: int) -> list[Answer] | None:
        """Record the driver's ``attempt``-th request about a change.

        Returns:
            None if there is something to do for the change; else the answers to the driver.
        """
        self._attempts[change_id] = max(attempt, self._attempts.get(change_id, 0))
        if change_id in self._failed:
            return [self.fail(change_id, self._failed[change_id])]
        return [] if change_id in self.done | self._withdrawn else None

    def ask(self, change_id: int) -> None:
        """Record that the driver wants a change, and that it can be made."""
        self._asked.add(change_id)

    def made(self, change_id: int, *, is_placed: bool = True) -> None:
        """Record that a change was made; ``is_placed``: the generation that it led to is known."""
        self.done.add(change_id)
        if is_placed:
            self._placed.add(change_id)

    def is_open(self, change_id: int) -> bool | None:
        """Return whether workers that stopped for a change must wait to hear where it led.

        None: this leader does not know the change.
        """
        if change_id in self.done:
            return change_id not in self._placed
        return False if change_id in self._asked else None

    def is_known(self, change_id: int) -> bool:
        """Return whether this leader was asked for a change, or heard that it was made."""
        return change_id in self._asked | self.done

    def withdraw(self, change_id: int) -> None:
        """Record that the driver no longer wants a change."""
        self._withdrawn.add(change_id)

    def fail(self, change_id: int, reason: str) -> Answer:
        """Record that a change will not be made, and return the answer to the driver."""
        self._failed[change_id] = reason
        if self.postponed == change_id:
            self.postponed = None
        attempt = self._attempts.get(change_id, 0)
        return Answer(AdjustFailed(change_id=change_id, attempt=attempt, reason=reason))

    def kept(self, change_id: int) -> Answer:
        """Return the answer to the driver that a change can no longer be given up."""
        attempt = self._attempts.get(change_id, 0)
        return Answer(AdjustKept(change_id=change_id, attempt=attempt))

    def retry(self, change_id: int) -> Answer:
        """Return the answer to the driver that another change is under way."""
        attempt = self._attempts.get(change_id, 0)
        return Answer(AdjustRetry(change_id=change_id, attempt=attempt))

    def halted(self) -> None:
        """Leave the deferred withdrawal to the recovery that begins."""
        if self.deferred is not None:
            self.postponed, self.deferred = self.deferred[0], None

    def recovered(self, last: int | None) -> list[Answer]:
        """Return the answer about the postponed change, now that a recovery is over.

        Args:
            last: the last change that the survivors went through; None: none. No later change
                is made: any worker that went through one died before it passed its state on.
        """
        self.done = set() if last is None else {last}
        self._placed = set(self.done)
        change_id, self.postponed = self.postponed, None
        if change_id is None:
            return []
        if change_id != last:
            return [self.fail(change_id, "the workers had to recover")]
        return [self.kept(change_id)] if change_id in self._withdrawn else []

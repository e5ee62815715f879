"""What a leader has heard of the changes that its job's driver asks for."""

from __future__ import annotations

from systems.elastic.actions import Answer


class Changes:
    """Of one leader's term. The one under way is an ``Adjustment``.

    The driver asks again whenever another leads, and numbers these attempts: an answer bears the
    last that this leader has heard. So one of a leader before it counts no more.
    """

    def __init__(self) -> None:
        """None was heard of."""
        self.done: set[int] = set()
        """That were made."""
        self._placed: set[int] = set()
        """Of those, in whose case it is known where they led."""
        self.postponed: int | None = None
        """One of which a recovery will tell whether a leader before this one has made it."""
        self.deferred: tuple[int, str, int] | None = None
        """One that is to be given up once all members have come, who may know that it was made; as
        the driver said it."""
        self._asked: set[int] = set()
        self._attempts: dict[int, int] = {}
        self._withdrawn: set[int] = set()
        """That the driver no longer wants."""
        self._failed: dict[int, str] = {}
        """Why those did that it was told have failed."""

    def heard(self, change_id: int, attempt: int) -> list[Answer] | None:
        """The driver says for the ``attempt``-th time what it wants. Where no more is to be done
        for that change: what it is answered, if anything."""
        self._attempts[change_id] = max(attempt, self._attempts.get(change_id, 0))
        if change_id in self._failed:
            return [self.fail(change_id, self._failed[change_id])]
        return [] if change_id in self.done | self._withdrawn else None

    def ask(self, change_id: int) -> None:
        """The driver wants it, and it can be made."""
        self._asked.add(change_id)

    def made(self, change_id: int, *, is_placed: bool = True) -> None:
        """Somebody has gone through it; ``is_placed``: and has said to which generation."""
        self.done.add(change_id)
        if is_placed:
            self._placed.add(change_id)

    def is_open(self, change_id: int) -> bool | None:
        """Whether who has stopped for it has to wait: it is not known yet where it led. None: this
        leader does not know of it."""
        if change_id in self.done:
            return change_id not in self._placed
        return False if change_id in self._asked else None

    def is_known(self, change_id: int) -> bool:
        """Whether this leader was asked for it, or heard that it was made."""
        return change_id in self._asked | self.done

    def withdraw(self, change_id: int) -> None:
        """The driver no longer wants it."""
        self._withdrawn.add(change_id)

    def fail(self, change_id: int, reason: str) -> Answer:
        """It will not be made."""
        self._failed[change_id] = reason
        if self.postponed == change_id:
            self.postponed = None
        return self.answer("adjust_failed", change_id, reason=reason)

    def answer(self, kind: str, change_id: int, **details: str) -> Answer:
        """What the driver is told of it."""
        attempt = self._attempts.get(change_id, 0)
        return Answer({"kind": kind, "change_id": change_id, "attempt": attempt, **details})

    def halted(self) -> None:
        """A recovery begins, and will tell."""
        if self.deferred is not None:
            self.postponed, self.deferred = self.deferred[0], None

    def recovered(self, last: int | None) -> list[Answer]:
        """A recovery is over: what became of the one that had to wait for it is known.

        ``last``: that those who go on went through. No other is made: whoever had gone through a
        later one has died before its state was anybody else's.
        """
        self.done = set() if last is None else {last}
        self._placed = set(self.done)
        change_id, self.postponed = self.postponed, None
        if change_id is None:
            return []
        if change_id != last:
            return [self.fail(change_id, "the workers had to recover")]
        return [self.answer("adjust_kept", change_id)] if change_id in self._withdrawn else []

"""Times for which a change of the membership keeps a replica from training."""

from __future__ import annotations

from collections import deque

from systems.torchft.membership import Quorum

RECENT_STEPS = 20


class Interruption:
    """Clock of a replica's steps. Times are on ``time.monotonic``.

    A change lasts from the last step of one whole quorum to the first of another. Steps in which a
    replica takes the state come between them. They train, but wait for the state to arrive.
    """

    def __init__(self) -> None:
        self.ended = 0.0
        """End of the last step that counts."""
        self._generation = -1
        self._settled_at: float | None = None
        """End of the last step of a whole quorum."""
        self._between: list[float] = []
        """Durations of the steps since then."""
        self._recent: deque[float] = deque(maxlen=RECENT_STEPS)
        self._usual_s = 0.0

    @property
    def usual_s(self) -> float:
        """Mean duration of the recent steps, or of those before the change; 0: there was none."""
        return sum(self._recent) / len(self._recent) if self._recent else self._usual_s

    def step(self, quorum: Quorum, started: float, ended: float) -> dict[str, float]:
        """Record a step; return the phases of a change that it ends, otherwise its own duration.

        ``quorum`` is the wait for the new quorum and its process group, with steps that do not
        count. ``heal`` is the time by which steps were longer because a replica took the state;
        it is missing if there was no such step. ``first_step`` is the first of the new quorum.
        """
        phases_s = {"first_step": ended - started}
        if quorum.generation != self._generation:
            if quorum.is_whole and self._settled_at is not None:
                between_s = sum(self._between)
                heal_s = sum(max(0.0, each - self.usual_s) for each in self._between)
                waited_s = max(0.0, started - self._settled_at - between_s)
                heal = {"heal": heal_s} if self._between else {}
                phases_s = {"quorum": waited_s, **heal, **phases_s}
            if quorum.is_whole:
                self._usual_s = self.usual_s
                self._recent.clear()  # the first step warms up and is no measure of the others
        elif quorum.is_whole:
            self._recent.append(ended - started)
        self._generation, self.ended = quorum.generation, ended
        if quorum.is_whole:
            self._settled_at, self._between = ended, []
        else:
            self._between.append(ended - started)
        return phases_s

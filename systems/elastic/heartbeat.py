"""Who has been silent for too long: the detection of workers that hang without dying.

Source: EDL, section 4.3, infers liveness from synchronisation requests. Differs: the leader beats
and workers answer on threads of their own, so that a long step is no silence. Whatever these
threads do they take from training, where a worker has one core: so a worker has no clock of its
own for beats, and is woken once for each.
"""

from __future__ import annotations

LOOKS = 4
"""Of a worker at its leader, in the time that a leader may be silent."""


class LeaderWatch:
    """When a worker heard its leader last. Times are of one clock, seconds. Any thread may
    ``note``; one looks."""

    def __init__(self, hang_timeout_s: float, heartbeat_s: float) -> None:
        self._hang_timeout_s = hang_timeout_s
        self._heartbeat_s = heartbeat_s
        self._heard_at = 0.0
        self._look_at = 0.0

    def note(self, now: float) -> None:
        """The leader was heard, or there is a new one."""
        self._heard_at = now

    def until_look_s(self, now: float) -> float:
        """Until ``silent_s`` is to be asked."""
        return max(0.0, self._look_at - now)

    def silent_s(self, now: float) -> float | None:
        """For how long the leader has been silent, if that is for too long; None before it is time
        to look, too.

        Looks come when the leader would have been silent for too long, and some before that: one
        that comes late tells that this process was held up, which is no silence of the leader's.
        """
        if now < self._look_at:
            return None
        if self._look_at and now - self._look_at > self._heartbeat_s:
            self._heard_at = now
        silent_s = now - self._heard_at
        left_s = self._hang_timeout_s - silent_s
        look_s = max(self._heartbeat_s, self._hang_timeout_s / LOOKS)
        self._look_at = now + (min(left_s, look_s) if left_s > 0.0 else look_s)
        return silent_s if left_s <= 0.0 else None

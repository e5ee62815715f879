"""Heartbeats between leader and workers, to detect a process that hangs without dying.

Source: EDL, section 4.3, infers liveness from synchronisation requests. Differs: the leader beats
and workers answer on threads of their own, so that a long step does not count as silence. On a
worker with one core these threads take time from training. So a worker has no timer of its own
for beats, and is woken once for each beat of the leader.
"""

from __future__ import annotations

LOOKS = 4
"""Number of checks of the leader that a worker makes within the hang time-out."""


class LeaderWatch:
    """Watch over one worker's leader. Times are seconds on one clock.

    Any thread may call ``note``; only one thread calls the other methods.
    """

    def __init__(self, hang_timeout_s: float, heartbeat_s: float) -> None:
        self._hang_timeout_s = hang_timeout_s
        self._heartbeat_s = heartbeat_s
        self._heard_at = 0.0
        self._look_at = 0.0

    def note(self, now: float) -> None:
        """Record that the leader was heard, or that there is a new one."""
        self._heard_at = now

    def until_look_s(self, now: float) -> float:
        """Return the seconds until ``silent_s`` must be called."""
        return max(0.0, self._look_at - now)

    def silent_s(self, now: float) -> float | None:
        """Return the seconds for which the leader has been silent, if too long; else None.

        Before the next check is due, the answer is None too. Checks are due at the time-out and
        some times before it. A late check shows that this process itself was held up, so it
        restarts the leader's silence.
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

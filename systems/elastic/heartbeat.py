"""Who has been silent for too long: the detection of workers that hang without dying.

Source: EDL, section 4.3, infers liveness from synchronisation requests. Differs: the leader beats
and workers answer on threads of their own, so that a long step is no silence. Whatever these
threads do they take from training, where a worker has one core: so a worker has no clock of its
own for beats, and is woken once for each.
"""

from __future__ import annotations

LOOKS = 4
"""Of a worker at its leader, in the time that a leader may be silent."""


class HeartbeatWatch:
    """Keeps when each worker was heard last. Times are of one clock, seconds."""

    def __init__(self, hang_timeout_s: float) -> None:
        self._hang_timeout_s = hang_timeout_s
        self._heard: dict[str, float] = {}
        self._looked: float | None = None

    def note(self, worker: str, now: float) -> None:
        """A worker was heard, or has until this time, which is yet to come, before it counts as
        silent."""
        self._heard[worker] = now

    def rest(self) -> None:
        """Nobody is expected, and nobody looks for a while, which is no delay."""
        self._heard.clear()
        self._looked = None

    def expects(self, worker: str) -> bool:
        """Whether a word of this worker is awaited."""
        return worker in self._heard

    def forget(self, worker: str) -> None:
        """Expect nothing of a worker until it is heard again."""
        self._heard.pop(worker, None)

    def silent(self, now: float, tick_s: float) -> dict[str, float]:
        """Workers that were silent for longer than the time-out, and for how long.

        Whoever watches calls this every ``tick_s``. If it comes later, the watcher itself was
        held up, and what was sent to it meanwhile may be unread: the delay is forgiven to all.
        """
        late_s = 0.0 if self._looked is None else now - self._looked - tick_s
        self._looked = now
        if late_s > tick_s:
            for worker, at in self._heard.items():
                self._heard[worker] = max(at, min(now, at + late_s))
        return {
            worker: now - at
            for worker, at in self._heard.items()
            if now - at > self._hang_timeout_s
        }


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

"""Which processes have been silent for too long, and not since the watcher itself was held up."""

from __future__ import annotations


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

"""Detection of workers that have been silent for too long, corrected for delays of the watcher."""

from __future__ import annotations


class HeartbeatWatch:
    """Times at which each worker was last heard, in seconds of one clock."""

    def __init__(self, hang_timeout_s: float) -> None:
        self._hang_timeout_s = hang_timeout_s
        self._heard: dict[str, float] = {}
        self._looked: float | None = None

    def note(self, worker: str, now: float) -> None:
        """Record that a worker was heard at ``now``. A time in the future gives the worker until
        then before its silence counts."""
        self._heard[worker] = now

    def rest(self) -> None:
        """Forget all workers and stop watching; the pause does not count as a delay of the
        watcher."""
        self._heard.clear()
        self._looked = None

    def expects(self, worker: str) -> bool:
        """Return whether a message of this worker is expected."""
        return worker in self._heard

    def forget(self, worker: str) -> None:
        """Expect nothing of a worker until it is heard again."""
        self._heard.pop(worker, None)

    def silent(self, now: float, tick_s: float) -> dict[str, float]:
        """Return the workers that were silent for longer than the time-out, with their seconds of
        silence.

        Call it every ``tick_s``. A later call means that the watcher was held up, and messages may
        be unread. All workers are then forgiven the delay.
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

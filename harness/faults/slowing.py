"""Slowing of a worker from outside: the worker is stopped and continued again and again.

Source: EDL, section 6.2, whose straggler has its synchronisation delayed by a third of the step,
"equivalent to limiting its computation capability to 75%". Here the process really runs for only
that share of the time, whatever it does and whichever backend started it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

LONGEST_STOP_S = 0.1
"""Longest stop, so short that the worker never looks hung."""


class Slowing:
    """Slowing of one worker, on its own thread: it begins at once and ends after a time or with
    ``end``.

    Each stop lasts until the worker's share of running time is right again, so that late wake-ups
    do not change the share.
    """

    def __init__(
        self,
        signal_worker: Callable[[signal.Signals], None],
        speed: float,
        period_s: float,
        lasting_s: float,
    ) -> None:
        """Begin to slow the worker.

        Args:
            signal_worker: sends the worker a signal; called from the slowing thread.
            speed: share of the time that the worker is to run.
            period_s: seconds from one stop to the next.
            lasting_s: seconds after which the slowing ends by itself.
        """
        self._signal_worker = signal_worker
        self._stopped_share = 1.0 - speed
        self._period_s = period_s
        self._lasting_s = lasting_s
        self._ending = threading.Event()
        self._stopped_s = 0.0
        self.started_at = time.monotonic()
        self._ended_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="slowing", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True if the worker runs freely again."""
        return self._ended_at is not None

    @property
    def lasted_s(self) -> float:
        """Seconds for which the worker has been slowed."""
        ended = time.monotonic() if self._ended_at is None else self._ended_at
        return ended - self.started_at

    @property
    def stopped_share(self) -> float:
        """Share of that time in which the worker was stopped, from signal to signal."""
        return self._stopped_s / max(self.lasted_s, 1e-9)

    def end(self) -> None:
        """Let the worker run again; safe to call twice."""
        # Waits for the thread, so that no signal follows.
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        until = self.started_at + self._lasting_s
        while not self._ending.is_set() and (begun := time.monotonic()) < until:
            elapsed_s = begun - self.started_at + self._period_s
            owed_s = self._stopped_share * elapsed_s - self._stopped_s
            if owed_s > 0:
                # SIGCONT follows in the same round, whatever ends the loop: no worker stays
                # stopped.
                self._signal_worker(signal.SIGSTOP)
                stopped = time.monotonic()
                # Waits on the event, not ``sleep``: ``end`` must not wait for the rest of a period.
                self._ending.wait(min(owed_s, LONGEST_STOP_S))
                self._signal_worker(signal.SIGCONT)
                self._stopped_s += time.monotonic() - stopped
            self._ending.wait(max(0.0, begun + self._period_s - time.monotonic()))
        self._ended_at = time.monotonic()

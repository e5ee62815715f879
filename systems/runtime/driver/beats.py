"""Heartbeats between the driver and its jobs' processes, to find those that hang without ending.

The driver asks each process for a beat. The process answers on the thread that reads from the
driver (``ControlClient``), so a long step does not count as silence. A stopped process does not
answer. A driver that was held up has asked for nothing meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import psutil

from systems.runtime.wire.control_server import Connection
from systems.runtime.wire.heartbeat import HeartbeatWatch
from systems.runtime.wire.messages import BeatRequest, ProcessGreeting
from systems.runtime.wire.protocol import Message
from systems.runtime.wire.step_log import LineWriter

DRIVER = "driver"
"""Accuser's name in the log if the driver itself missed a process."""
LEAST_SILENCE_S = 2.0
"""Shortest silence after which the driver takes a process for stopped, however short the time-out
is. The driver looks only from time to time."""
LOOK_S = 0.25
"""Shortest time between two looks, so that many messages a second do not cause as many looks."""
ASKED = 4
"""Beats requested within the longest allowed silence, so that one may be late."""

Send: TypeAlias = Callable[[Connection, Message], None]


@dataclass(slots=True)
class _Watched:
    connection: Connection
    asked_at: float
    heard_at: float
    ran_s: float | None = None
    """Processor time, in seconds, when a beat was first found unanswered or at the last look since.
    None if all beats were answered."""
    is_told: bool = False


class Beats:
    """Heartbeats of one job's processes. Times are on ``time.monotonic``."""

    def __init__(self, hang_timeout_s: float, send: Send) -> None:
        """Watch no process yet.

        Args:
            hang_timeout_s: silence after which a process has stopped.
            send: sends a message over a connection.
        """
        silence_s = max(LEAST_SILENCE_S, hang_timeout_s)
        self._period_s = silence_s / ASKED
        self._watch = HeartbeatWatch(silence_s)
        self._send = send
        self._watched: dict[str, _Watched] = {}
        self._look_at = 0.0

    def silent(
        self, now: float, needed: Callable[[], Mapping[str, Connection]]
    ) -> dict[str, float]:
        """Return each newly found stopped process with its seconds of silence.

        Call it at every turn of the driver's loop. ``needed`` returns the processes by name; it is
        called only when a look is due. A new process has the whole time-out before it. A process
        that does not answer but uses the processor is busy, however long it holds its interpreter's
        lock. A process has stopped only if it does neither.
        """
        if now < self._look_at:
            return {}
        self._look_at = now + LOOK_S
        processes = needed()
        for name in [known for known in self._watched if known not in processes]:
            del self._watched[name]
            self._watch.forget(name)
        for name, connection in processes.items():
            self._ask(name, connection, now)
        # The loop may wait for messages, so a look may come twice as late as it is due.
        silent = self._watch.silent(now, 2 * LOOK_S)
        found = {
            name: silent_s for name, silent_s in silent.items() if self._has_stopped(name, now)
        }
        for name in found:
            self._watched[name].is_told = True
        return found

    def _ask(self, name: str, connection: Connection, now: float) -> None:
        watched = self._watched.get(name)
        if watched is None:
            self._watched[name] = _Watched(connection, now, connection.heard_at)
            self._watch.note(name, now)
        else:
            if connection.heard_at > watched.heard_at:
                watched.heard_at, watched.ran_s = connection.heard_at, None
                self._watch.note(name, watched.heard_at)
            if now < watched.asked_at + self._period_s:
                return
            if watched.heard_at < watched.asked_at and watched.ran_s is None:
                watched.ran_s = _processor_s(connection)
            watched.asked_at = now
        self._send(connection, BeatRequest())

    def _has_stopped(self, name: str, now: float) -> bool:
        watched = self._watched[name]
        if watched.is_told:
            return False
        before_s, watched.ran_s = watched.ran_s, _processor_s(watched.connection)
        if watched.ran_s is None:
            return True
        if before_s is None:
            return False  # the next look compares with this one
        if watched.ran_s > before_s:
            self._watch.note(name, now)
            return False
        return True


def _processor_s(connection: Connection) -> float | None:
    """Return the processor time of the process at the other end, in seconds.

    The result is None if the time is not known, as on another host.
    """
    greeting = connection.greeting
    assert isinstance(greeting, ProcessGreeting)
    if not connection.is_of_this_host:
        return None
    try:
        times = psutil.Process(greeting.pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def write_accusation(
    log: LineWriter, at: float, worker: str, accuser: str, silent_s: float
) -> None:
    """Record a kill for silence in the job's ``accusations.jsonl``, to tell it from other deaths.

    A full disk does not end the run: the line waits for the next attempt.
    """
    log.add({"at": at, "worker": worker, "accuser": accuser, "silent_s": silent_s})
    log.try_flush()


def after_silence(reason: str, silent_s: float) -> str:
    """Return the reason of an end, with the preceding silence in seconds unless it is 0."""
    return f"{reason}, silent for {silent_s:.1f} s (hang_timeout_s)" if silent_s else reason

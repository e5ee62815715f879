"""What a worker notes of the coordination itself: messages heard, and its first election.

Source: EDL, sections 4.1 and 4.4, which state such times. Every message between a worker and
the leader carries the time at which it was sent; whoever handles it notes how long it took. All
of a job's workers are on one host here, where CLOCK_MONOTONIC is one clock: across hosts the
latencies would mean nothing. The greeting carries no time. ``harness.engines.coordination``
reads what is written.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from systems.elastic.election import Election
from systems.elastic.order import ElasticOrder
from systems.runtime.control import Message, encode
from systems.runtime.step_log import LineWriter

SENT = "sent"
"""Key of a message: when it was sent, seconds on ``time.monotonic``."""
KEPT = 4096
"""Latencies that a worker keeps, the latest: a minute's and more of heartbeats."""


def stamped(message: Message) -> Message:
    """The message with the time, which is now."""
    return {**message, SENT: time.monotonic()}


class CoordinationLog:
    """One worker's, filled by the thread that follows the leader and by the one that leads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_messages = 0
        self._num_bytes = 0
        self._timed: deque[tuple[float, int]] = deque(maxlen=KEPT)
        """When a message was sent, and the microseconds until it was handled."""

    def note(self, message: Message) -> None:
        """This message is being handled now; one without a time is none of the leader's."""
        now = time.monotonic()
        sent = message.get(SENT)
        if sent is None:
            return
        num_bytes = len(encode(message))  # those it came in: there is one way to write it
        with self._lock:
            self._num_messages += 1
            self._num_bytes += num_bytes
            self._timed.append((sent, round((now - sent) * 1e6)))

    def write(self, order: ElasticOrder, election: Election) -> None:
        """Write it down in the job's folder, as ``coordination-WORKER.jsonl``: one line."""
        knew = election.first_known
        with self._lock:
            entry: dict[str, Any] = {
                "worker": order.worker,
                "generation": order.generation,
                "num_founders": 0 if order.joining else len(order.members),
                "began": election.began_at,
                "knew": None if knew is None else knew[0],
                "leader": None if knew is None else knew[1],
                "num_messages": self._num_messages,
                "num_bytes": self._num_bytes,
                "timed": list(self._timed),
            }
        with suppress(OSError):  # no finished job is to be lost for want of this
            lines = LineWriter(Path(order.job_dir) / f"coordination-{order.worker}.jsonl")
            lines.add(entry)
            lines.flush()

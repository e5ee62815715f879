"""Log of a worker's coordination: latencies of messages, and its first leader election.

Source: EDL, sections 4.1 and 4.4, which state such times. Every message between a worker and
the leader, except the greeting, carries its sending time. Its receiver notes the latency. Times
are on the driver's clock, so a latency across hosts has the error of two offsets.
``harness.engines.live.coordination`` reads the log.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from systems.elastic.election.election import Election
from systems.elastic.wire.messages import Stamped
from systems.elastic.wire.order import ElasticOrder
from systems.runtime.wire.clock import driver_now, on_driver_clock
from systems.runtime.wire.protocol import Message, encode
from systems.runtime.wire.step_log import LineWriter

KEPT = 4096
"""Number of latest latencies that a worker keeps: over a minute of heartbeats."""


S = TypeVar("S", bound=Stamped)


def stamped(message: S) -> S:
    """Return the message with the present time as its sending time."""
    return msgspec.structs.replace(message, sent=driver_now())


class CoordinationLog:
    """One worker's log, filled by its membership thread, its reading threads and its server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_messages = 0
        self._num_bytes = 0
        self._timed: deque[tuple[float, int]] = deque(maxlen=KEPT)
        """Sending time of each message, and the microseconds until it was handled."""

    def note(self, message: Message) -> None:
        """Record that a message is handled now; a message without a sending time is ignored."""
        now = driver_now()
        if not isinstance(message, Stamped) or message.sent is None:
            return
        num_bytes = len(encode(message))  # as received: messages have only one encoding
        with self._lock:
            self._num_messages += 1
            self._num_bytes += num_bytes
            self._timed.append((message.sent, round((now - message.sent) * 1e6)))

    def write(self, order: ElasticOrder, election: Election) -> None:
        """Write the log to the job's folder as ``coordination-WORKER.jsonl``, one line."""
        knew = election.first_known
        with self._lock:
            entry: dict[str, Any] = {
                "worker": order.worker,
                "generation": order.generation,
                "num_founders": 0 if order.joining else len(order.members),
                "began": on_driver_clock(election.began_at),
                "knew": None if knew is None else on_driver_clock(knew[0]),
                "leader": None if knew is None else knew[1],
                "num_messages": self._num_messages,
                "num_bytes": self._num_bytes,
                "timed": list(self._timed),
            }
        with suppress(OSError):  # a failed log must not fail a finished job
            lines = LineWriter(Path(order.job_dir) / f"coordination-{order.worker}.jsonl")
            lines.add(entry)
            lines.flush()

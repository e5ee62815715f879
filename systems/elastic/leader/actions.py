"""Actions that a leader's decisions lead to: messages to workers and to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from systems.elastic.wire.messages import Stamped
from systems.runtime.wire.protocol import Message


@dataclass(frozen=True, slots=True)
class Tell:
    """Message that the leader sends to a worker."""

    worker: str
    message: Stamped


@dataclass(frozen=True, slots=True)
class Answer:
    """Message that the leader sends to the driver."""

    message: Message


Action: TypeAlias = Tell | Answer

"""What a leader's decisions come to: messages to workers and to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from systems.runtime.control import Message


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to a worker."""

    worker: str
    message: Message


@dataclass(frozen=True, slots=True)
class Answer:
    """Send a message to the driver."""

    message: Message


Action: TypeAlias = Tell | Answer

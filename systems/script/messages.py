"""Messages of the channel by which other processes of the same user ask a job for something."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from systems.runtime.wire.control_server import Channels
from systems.runtime.wire.protocol import (
    Count,
    Greeting,
    Inbound,
    Message,
    Number,
    Seconds,
)


class RequestGreeting(Greeting, frozen=True, kw_only=True, tag="request_greeting"):
    """Client to job, before its request."""

    @property
    def sender(self) -> str:
        """Name of the process that greets, for reasons of refusals."""
        return "a request"


class Status(Message, frozen=True, kw_only=True, tag="status"):
    """Client to job: say where the job is."""


class Finish(Message, frozen=True, kw_only=True, tag="finish"):
    """Client to job: end the training after the present step."""


class ScaleOut(Message, frozen=True, kw_only=True, tag="scale_out"):
    """Client to job: use more workers. It names their number or their slots."""

    to: Number | None = None
    """Number of workers."""
    join: tuple[Number, ...] = ()
    """Free slots to add."""


class ScaleIn(Message, frozen=True, kw_only=True, tag="scale_in"):
    """Client to job: use fewer workers. It names their number or the slots to leave."""

    to: Number | None = None
    """Number of workers."""
    leave: tuple[Number, ...] = ()


class Migrate(Message, frozen=True, kw_only=True, tag="migrate"):
    """Client to job: exchange each of these slots for a free one."""

    leave: tuple[Number, ...]


class Profile(Message, frozen=True, kw_only=True, tag="profile"):
    """Client to job: measure its throughput, from the largest number of workers down."""

    steps: Number
    """Number of steps to measure at each size."""
    min: Number = 1
    """Smallest number of workers, if ``max`` is given."""
    max: Number | None = None
    """Largest number of workers; None: only the present number is measured."""


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Throughput of a job with one number of workers."""

    workers: Count
    samples_per_s: Seconds
    efficiency: float
    """Throughput of a worker over the best of all sizes."""


class RequestAnswer(Message, frozen=True, kw_only=True, tag="answer"):
    """Job to client, once its request is done, has failed, or cannot begin now."""

    status: Literal["done", "retry", "failed"]
    reason: str | UnsetType = UNSET
    """Why it is not done."""
    step: Count | UnsetType = UNSET
    workers: Count | UnsetType = UNSET
    slots: tuple[Count, ...] | UnsetType = UNSET
    stopping_time_s: Seconds | UnsetType | None = UNSET
    """Longest time for which a worker was stopped; None if that is not known."""
    phases_s: dict[str, Seconds] | UnsetType = UNSET
    profile: tuple[Rate, ...] | UnsetType = UNSET

    def fields(self) -> dict[str, Any]:
        """Return the fields that the answer has."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        del found["kind"]
        return found


Change: TypeAlias = ScaleOut | ScaleIn | Migrate
"""Request for other workers."""

CHANGES = (ScaleOut, ScaleIn, Migrate)
REQUESTS = (Status, Finish, Profile)
ANSWERS = (RequestAnswer,)

TO_ASKING = Inbound(*ANSWERS)
"""Messages that a client, such as a command in another shell, accepts from the job."""
CHANNELS = Channels({RequestGreeting: Inbound(*CHANGES, *REQUESTS)})
"""Greetings and requests that a job accepts."""

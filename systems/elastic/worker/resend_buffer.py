"""Facts that a worker of an elastic job has told its leader, and tells every later one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from systems.elastic.wire.messages import Deaths, MeetingFailed, Stamped


class ResendBuffer:
    """Last message of each class that was told. The caller holds ``LeaderClient``'s lock."""

    def __init__(self) -> None:
        """Begin without any fact."""
        self._messages: dict[type[Stamped], Stamped] = {}

    def __iter__(self) -> Iterator[Stamped]:
        return iter(self._messages.values())

    def note(self, message: Stamped) -> None:
        """Keep a message in place of the earlier one of its class."""
        self._messages[type(message)] = message

    def forget(self, kind: type[Stamped]) -> None:
        """Drop the message of a class, which is no longer true."""
        self._messages.pop(kind, None)

    def lost(self, workers: Sequence[str]) -> Deaths:
        """Return the message that these workers have died, with all that died before them."""
        known = self._messages.get(Deaths)
        before = known if isinstance(known, Deaths) else Deaths()
        dead = tuple(dict.fromkeys([*before.workers, *workers]))
        message = msgspec.structs.replace(before, workers=dead)
        self.note(message)
        return message

    def entered(self, generation: int, members: Sequence[str]) -> None:
        """Bring the facts up to date when the worker has entered a generation.

        Dead workers outside that generation count as ``parted`` from it. A failure to meet in an
        earlier generation no longer matters.
        """
        lost = self._messages.get(Deaths)
        if isinstance(lost, Deaths):
            parted = tuple(worker for worker in lost.workers if worker not in members)
            self.note(msgspec.structs.replace(lost, parted=parted))
        failed = self._messages.get(MeetingFailed)
        if isinstance(failed, MeetingFailed) and failed.generation < generation:
            self.forget(MeetingFailed)

"""Facts that a worker of an elastic job has told its leader, and tells every later one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from systems.runtime.wire.control import Message


class ResendBuffer:
    """Last message of each kind that was told. The caller holds ``LeaderClient``'s lock."""

    def __init__(self) -> None:
        """Begin without any fact."""
        self._messages: dict[str, Message] = {}

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def note(self, message: Message) -> None:
        """Keep a message in place of the earlier one of its kind."""
        self._messages[message["kind"]] = message

    def forget(self, kind: str) -> None:
        """Drop the message of a kind, which is no longer true."""
        self._messages.pop(kind, None)

    def lost(self, workers: Sequence[str]) -> Message:
        """Return the message that these workers have died, with all that died before them."""
        known = self._messages.get("lost", {"kind": "lost", "workers": [], "parted": []})
        message: Message = {**known, "workers": [*dict.fromkeys([*known["workers"], *workers])]}
        self.note(message)
        return message

    def entered(self, generation: int, members: Sequence[str]) -> None:
        """Bring the facts up to date when the worker has entered a generation.

        Dead workers outside that generation count as ``parted`` from it. A failure to meet in an
        earlier generation no longer matters.
        """
        lost = self._messages.get("lost")
        if lost is not None:
            parted = [worker for worker in lost["workers"] if worker not in members]
            self.note({**lost, "parted": parted})
        failed = self._messages.get("meeting_failed")
        if failed is not None and failed["generation"] < generation:
            self.forget("meeting_failed")

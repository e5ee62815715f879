"""What a worker of an elastic job has told its leader, and tells every later one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from systems.runtime.control import Message


class Facts:
    """The last message of each kind. Used under one lock (``member``)."""

    def __init__(self) -> None:
        """Nothing has been told."""
        self._messages: dict[str, Message] = {}

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def note(self, message: Message) -> None:
        """It is told; what was told of this kind is not true any more."""
        self._messages[message["kind"]] = message

    def forget(self, kind: str) -> None:
        """What was told of this kind is not true any more."""
        self._messages.pop(kind, None)

    def lost(self, workers: Sequence[str]) -> Message:
        """These have died: what is told of it, with all that had died before."""
        known = self._messages.get("lost", {"kind": "lost", "workers": [], "parted": []})
        message: Message = {**known, "workers": [*dict.fromkeys([*known["workers"], *workers])]}
        self.note(message)
        return message

    def entered(self, generation: int, members: Sequence[str]) -> None:
        """The worker belongs to a generation: the others have parted from whoever it knows to be
        dead, and it matters no more whether it could begin with an earlier one."""
        lost = self._messages.get("lost")
        if lost is not None:
            parted = [worker for worker in lost["workers"] if worker not in members]
            self.note({**lost, "parted": parted})
        failed = self._messages.get("meeting_failed")
        if failed is not None and failed["generation"] < generation:
            self.forget("meeting_failed")

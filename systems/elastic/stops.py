"""Who has stopped for a change that is made while nobody trains, as the leader has heard.

All members stop at the end of the same step. A leader that another follows may have said how they
go on, and some not have read it: the next one says it again where it can know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from systems.elastic.actions import Tell
from systems.runtime.control import Message


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a worker stopped, and for which change."""

    generation: int
    change_id: int
    step: int


class Stops:
    """A leader's."""

    def __init__(self) -> None:
        self._at: dict[str, Stop] = {}
        self._ended: set[Stop] = set()
        """That somebody has gone on from in the same generation, as all others are to."""

    def note(self, worker: str, at: Stop, *, goes_on: bool) -> None:
        """A worker has stopped, or was told by some leader to go on in the same generation."""
        if goes_on:
            self._ended.add(at)
            self._at.pop(worker, None)
        else:
            self._at[worker] = at

    def told(self, change_id: int) -> None:
        """Everybody who has stopped for a change was told what becomes of it."""
        self._at = {worker: at for worker, at in self._at.items() if at.change_id != change_id}

    def clear(self) -> None:
        """All halt, those who have stopped too."""
        self._at.clear()

    def free(
        self,
        present: int,
        announced: int,
        members: Collection[str],
        is_open: Callable[[int], bool | None],
    ) -> list[Tell]:
        """What workers may have missed; each is told once.

        Args:
            present: the leader's generation.
            announced: one that somebody was told to switch to by a leader before this one.
            members: who trains in it.
            is_open: whether the leader is at this change; None: it has not heard of it. If the
                driver still wants that one, it will ask again.
        """
        actions: list[Tell] = []
        everybody_at = {self._at.get(worker) for worker in members}
        for worker, at in list(self._at.items()):
            state = is_open(at.change_id)
            goes_on = state is False or (state is None and everybody_at == {at})
            if at.generation < max(present, announced):
                message: Message = {"kind": "announce", "generation": max(present, announced)}
            elif at.generation == present and (goes_on or at in self._ended):
                message = {"kind": "cancel", "generation": 0, "change_id": at.change_id}
            else:
                continue
            del self._at[worker]
            actions.append(Tell(worker, message))
        return actions

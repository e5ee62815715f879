"""Workers that have stopped for a change which is made while no worker trains, for the leader.

All members stop at the end of the same step. An earlier leader may have told some of them how to go
on, before the others read it. The next leader repeats that message where it can know it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from systems.elastic.leader.actions import Tell
from systems.elastic.wire.messages import Announce, Cancel


@dataclass(frozen=True, slots=True)
class Stop:
    """Place where a worker stopped, and the change that it stopped for."""

    generation: int
    change_id: int
    step: int


class Stops:
    """Stopped workers, as a leader has heard of them."""

    def __init__(self) -> None:
        self._at: dict[str, Stop] = {}
        self._ended: set[Stop] = set()
        """Stops after which a worker went on in the same generation; the others must, too."""

    def note(self, worker: str, at: Stop, *, goes_on: bool) -> None:
        """Record that a worker has stopped, or was told to go on in the same generation."""
        if goes_on:
            self._ended.add(at)
            self._at.pop(worker, None)
        else:
            self._at[worker] = at

    def told(self, change_id: int) -> None:
        """Forget the workers that have stopped for a change: they were told what becomes of it."""
        self._at = {worker: at for worker, at in self._at.items() if at.change_id != change_id}

    def clear(self) -> None:
        """Forget all stopped workers: a recovery halts them, too."""
        self._at.clear()

    def free(
        self,
        present: int,
        announced: int,
        members: Collection[str],
        is_open: Callable[[int], bool | None],
    ) -> list[Tell]:
        """Return messages that stopped workers may have missed; each worker is told once.

        Args:
            present: the leader's generation.
            announced: a generation that an earlier leader told a worker to switch to.
            members: workers that train in ``present``.
            is_open: returns whether the leader is at this change; None if it has not heard of it.
                The driver asks again for a change that it still wants.
        """
        actions: list[Tell] = []
        everybody_at = {self._at.get(worker) for worker in members}
        for worker, at in list(self._at.items()):
            state = is_open(at.change_id)
            goes_on = state is False or (state is None and everybody_at == {at})
            if at.generation < max(present, announced):
                message: Announce | Cancel = Announce(generation=max(present, announced))
            elif at.generation == present and (goes_on or at in self._ended):
                message = Cancel(generation=0, change_id=at.change_id)
            else:
                continue
            del self._at[worker]
            actions.append(Tell(worker, message))
        return actions

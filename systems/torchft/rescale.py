"""Stages of a change of a running job's replicas.

New replicas are started and wait until all of them are ready. Then all replicas are told a
``Target``; those that must leave do so when it comes into force. Then the new ones ask for a
quorum. If none of the old ones stays, the new ones join first, and the old ones leave with a second
target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from systems.torchft.order import Target


@dataclass(slots=True)
class Rescale:
    """Change of a running job's replicas, by their numbers."""

    before: tuple[int, ...]
    """Replicas before the change."""
    new: tuple[int, ...]
    final: tuple[int, ...]
    """Wanted replicas, in the order of their slots."""
    batch_before: int
    final_batch: int
    target: Target | None = None
    """Target that all replicas were told last; None while new replicas start."""
    is_obeyed: bool = False
    """True if that target is in force."""
    has_arrived: bool = False
    """True if the last target has been reached."""

    @property
    def leaving(self) -> tuple[int, ...]:
        """Replicas that the change ends."""
        return tuple(number for number in self.before if number not in self.final)

    @property
    def is_final(self) -> bool:
        """True if the last target has been told."""
        return self.target is not None and self.target.members == self.final

    @property
    def told_to_leave(self) -> tuple[int, ...]:
        """Replicas that have been told to leave."""
        return self.leaving if self.is_final else ()

    def next_target(self, number: int) -> Target:
        """Return the next target; ``number`` is the target's own."""
        if self.target is None and set(self.final) <= set(self.new):
            target = Target(
                number=number,
                members=(*self.before, *self.new),
                global_batch=self.batch_before,
            )
        else:
            target = Target(
                number=number,
                members=self.final,
                global_batch=self.final_batch,
                leaving=self.leaving,
            )
        self.target, self.is_obeyed = target, False
        return target

    def obeyed(self, number: int) -> None:
        """Record that a target is in force."""
        if self.target is not None and number == self.target.number:
            self.is_obeyed = True

    def arrived(self, number: int) -> bool:
        """Record that a target has been reached; return whether another one must follow."""
        if self.target is None or number != self.target.number:
            return False
        self.is_obeyed = True
        self.has_arrived = self.is_final
        return not self.is_final


def crowd_problem(held: Mapping[int, int], slots: Sequence[int], global_batch: int) -> str | None:
    """Return why the replicas cannot move to these slots, or None.

    Args:
        held: number of the replica on each slot that the job has.
        slots: slots after the change.
        global_batch: batch until the change is done.
    """
    together = len(held) + len(slots)
    if together <= global_batch or set(slots) & held.keys():
        return None
    return (
        f"torchft gives newcomers the state in a step with the old replicas, and {together} of"
        f" them cannot share a global batch of {global_batch}; keep a slot, or suspend and resume"
        " the job"
    )

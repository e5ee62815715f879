"""Engine: the component that advances time and applies changes.

The replay asks an engine to wait, gets events, lets the scheduler decide, and hands the engine the
resulting changes. The same replay drives the simulated and the live engine. No code outside an
engine knows which engine runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from harness.contracts.abilities import Abilities
from harness.contracts.change import Change
from harness.contracts.event import Event


class Engine(Protocol):
    """Component that advances time and applies changes. Implementations: ``harness/engines/``."""

    @property
    def abilities(self) -> Abilities:
        """Abilities of the engine's backend."""
        ...

    def now(self) -> float:
        """Return the seconds since the start of the run on this engine's clock, which never goes
        back."""
        ...

    def wait(self, until_s: float) -> list[Event]:
        """Advance to the next event or to ``until_s``, whichever is first.

        Returns all events of that instant in the order of ``EventKind``, or an empty list at
        ``until_s``.

        Raises:
            RuntimeError: ``until_s`` is infinite and nothing is under way, so the wait would be
                endless.
        """
        ...

    @property
    def is_idle(self) -> bool:
        """True if nothing is under way or due, so that only a new change can lead to an event."""
        ...

    def apply(self, changes: Sequence[Change]) -> list[Event]:
        """Begin the changes and return the events that are true at once.

        A change without cost is done at once, and the result has its CHANGE_DONE. For any other
        change, ``wait`` reports acceptance, retry, end or failure, with the change's id. The job
        holds the slots that a change gives up until the change is done.
        """
        ...

    def close(self) -> None:
        """Release everything and leave no process of the run. Safe to call twice."""
        ...

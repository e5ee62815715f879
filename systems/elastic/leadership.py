"""Which worker leads an elastic job, as its driver hears of it.

Workers say so themselves, each over a connection of its own. So of two that follow each other
quickly the first may be heard last, and a leader that goes is followed by the question who leads
now: the answer may have come before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from systems.elastic.crew import Crew, Process


class Leadership:
    """See the module's text."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._leader = ""
        """Its name; empty while nobody is known to lead."""
        self._term = 0
        """Which of its terms that is."""

    def claimed(self, process: Process, term: int) -> bool:
        """A worker says that it leads; whether it can be asked for changes.

        One that has left may still be elected for a moment.
        """
        if process.is_dead or process.end is not None or process.left is not None:
            return False
        self._leader, self._term = process.name, term
        return True

    def ended(self, process: Process) -> None:
        """A worker has left or died, or leads no more."""
        if self._leader == process.name:
            self._leader = ""
            self._crew.tell_all({"kind": "who_leads"})

    @property
    def is_known(self) -> bool:
        """Whether somebody can be asked."""
        return bool(self._leader)

    def ask(self, request: Mapping[str, Any]) -> None:
        """Ask the leader, which has to be known."""
        self._crew.tell([self._leader], {**request, "term": self._term})

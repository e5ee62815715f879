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

    def claimed(self, process: Process) -> bool:
        """A worker says that it leads; whether it can be asked for changes.

        One that has left may still be elected for a moment.
        """
        if process.is_dead or process.end is not None or process.left is not None:
            return False
        self._leader = process.name
        return True

    def ended(self, process: Process) -> None:
        """A worker has left or died."""
        if self._leader == process.name:
            self._leader = ""
            self._crew.tell_all({"kind": "who_leads"})

    def ask(self, request: Mapping[str, Any]) -> None:
        """Ask the leader; one that is not known yet is asked once it is."""
        if self._leader:
            self._crew.tell([self._leader], request)

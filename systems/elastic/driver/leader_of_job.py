"""Driver's knowledge of which worker leads an elastic job.

Workers announce their leadership themselves, each over a connection of its own. If two leaders
follow each other quickly, the announcement of the first may arrive last. So when a leader is gone,
the driver asks all workers which one leads: the announcement may have come earlier.
"""

from __future__ import annotations

from msgspec.structs import replace

from systems.elastic.driver.processes import Process, ProcessTable
from systems.elastic.wire.messages import Adjust, WhoLeads, Withdraw


class LeaderOfJob:
    """Leader of one job, as far as its driver knows."""

    def __init__(self, process_table: ProcessTable) -> None:
        self._process_table = process_table
        self._leader = ""
        """Name of the leader; empty while none is known."""
        self._term = 0
        """Number of the leader's present term."""

    def claimed(self, process: Process, term: int) -> bool:
        """Record that a worker announced its leadership. Return whether to ask it for changes.

        A worker that has left may still be elected for a moment; it is ignored.
        """
        if process.is_dead or process.end is not None or process.left is not None:
            return False
        self._leader, self._term = process.name, term
        return True

    def ended(self, process: Process) -> None:
        """Record that a worker has left, has died or no longer leads."""
        if self._leader == process.name:
            self._leader = ""
            self._process_table.tell_all(WhoLeads())

    @property
    def is_known(self) -> bool:
        """Return whether a leader is known."""
        return bool(self._leader)

    def ask(self, request: Adjust | Withdraw) -> None:
        """Send a request to the leader, which must be known."""
        self._process_table.tell([self._leader], replace(request, term=self._term))

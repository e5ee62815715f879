"""Callbacks for leader messages, run during a step.

They run on the membership's thread, while the training thread trains or waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from systems.elastic.worker.group_builder import Topology
from systems.elastic.worker.leader_client import Handlers
from systems.elastic.worker.shutdown import tell_halted
from systems.runtime.wire.control import Message

if TYPE_CHECKING:
    from systems.elastic.worker.loop import ElasticLoop


class Hearing:
    """One worker's callbacks for leader messages."""

    def __init__(self, loop: ElasticLoop) -> None:
        self._loop = loop

    def handlers(self) -> Handlers:
        """Return the callbacks for the worker's ``Member``."""
        leads = self._loop.bench.mark.leads
        return Handlers(self._topology, self._cancel, self._halt, self._dismissed, leads)

    def _topology(self, message: Message) -> None:
        loop = self._loop
        topology = Topology.from_message(message)
        loop.topologies = {  # keep one more: the training thread may be using it
            **dict(list(loop.topologies.items())[-1:]),
            topology.generation: topology,
        }
        loop.regrouping.begin(topology.generation, topology.membership)
        if loop.order.transfer == "background" and topology.donors.get(loop.worker):
            loop.giving.connect(topology.donors[loop.worker], topology.generation)
        loop.taking.expect(topology)

    def _cancel(self, generation: int) -> None:
        loop = self._loop
        others = (each for each in loop.topologies.values() if each.generation != generation)
        loop.topologies = {each.generation: each for each in others}
        loop.regrouping.cancel(generation)
        loop.giving.cancel()

    def _halt(self, number: int) -> None:
        loop = self._loop
        # ``halt`` first: a group that is taken from now on is given up where it is taken.
        # ``released`` last: what the training thread begins after it must not be ended here.
        loop.halt = max(loop.halt, number)
        self._release()
        loop.released = max(loop.released, number)
        if loop.outcome is not None:  # the training thread may be busy leaving
            tell_halted(loop, loop.halt)

    def _dismissed(self) -> None:
        self._loop.is_dismissed = True
        self._release()

    def _release(self) -> None:
        """End every wait of the training thread, which then raises GroupLost."""
        loop = self._loop
        for group in (loop.group, loop.meeting):
            if group is not None:
                group.give_up()
        loop.regrouping.cancel_all()
        loop.giving.cancel()
        loop.taking.cancel()

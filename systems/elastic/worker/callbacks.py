"""Callbacks for leader messages, run during a step.

They run on the membership's thread, while the training thread trains or waits.
"""

from __future__ import annotations

from systems.elastic.wire.messages import Topology
from systems.elastic.worker.leader_client import Handlers
from systems.elastic.worker.shutdown import tell_halted
from systems.elastic.worker.state import WorkerState


class LeaderCallbacks:
    """One worker's callbacks for leader messages."""

    def __init__(self, worker: WorkerState) -> None:
        self._worker = worker

    def handlers(self) -> Handlers:
        """Return the callbacks for the worker's ``LeaderClient``."""
        leads = self._worker.bench.mark.leads
        return Handlers(self._topology, self._cancel, self._halt, self._dismissed, leads)

    def _topology(self, topology: Topology) -> None:
        worker = self._worker
        worker.topologies = {  # keep one more: the training thread may be using it
            **dict(list(worker.topologies.items())[-1:]),
            topology.generation: topology,
        }
        worker.regrouping.begin(topology.generation, topology.membership)
        if worker.order.transfer == "background" and topology.donors.get(worker.name):
            worker.giving.connect(topology.donors[worker.name], topology.generation)
        worker.taking.expect(topology)

    def _cancel(self, generation: int) -> None:
        worker = self._worker
        others = (each for each in worker.topologies.values() if each.generation != generation)
        worker.topologies = {each.generation: each for each in others}
        worker.regrouping.cancel(generation)
        worker.giving.cancel()

    def _halt(self, number: int) -> None:
        worker = self._worker
        # ``halt`` first: a group that is taken from now on is given up where it is taken.
        # ``released`` last: what the training thread begins after it must not be ended here.
        worker.halt = max(worker.halt, number)
        self._release()
        worker.released = max(worker.released, number)
        if worker.outcome is not None:  # the training thread may be busy leaving
            tell_halted(worker, worker.halt)

    def _dismissed(self) -> None:
        self._worker.is_dismissed = True
        self._release()

    def _release(self) -> None:
        """End every wait of the training thread, which then raises GroupLost."""
        worker = self._worker
        for group in (worker.group, worker.meeting):
            if group is not None:
                group.give_up()
        worker.regrouping.cancel_all()
        worker.giving.cancel()
        worker.taking.cancel()

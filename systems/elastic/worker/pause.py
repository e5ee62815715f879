"""Pause of a worker that has stopped for a change made while no worker trains (``stops_first``)."""

from __future__ import annotations

from systems.elastic.wire.messages import Announce, Cancel, StoppedFor
from systems.elastic.worker.state import WorkerState
from systems.runtime.wire.groups import GroupLost
from systems.runtime.wire.messages import MayExit


def wait_for_switch(worker: WorkerState, change_id: int) -> int:
    """Wait until the leader says how to go on, and return the generation to switch to.

    Returns:
        The generation; 0 to go on in the present one.

    Raises:
        GroupLost: all workers are halted meanwhile, or this worker is dismissed.
    """
    _tell(worker, change_id)
    while True:
        message = worker.member.directives.get()
        if isinstance(message, MayExit):
            worker.is_dismissed = True
        if worker.is_halted:
            worker.member.forget(StoppedFor)
            raise GroupLost("halted")
        if isinstance(message, Announce):
            generation = message.generation
            if generation > worker.generation and generation in worker.topologies:
                worker.member.forget(StoppedFor)
                return generation
        if isinstance(message, Cancel) and message.change_id == change_id:
            _tell(worker, change_id, goes_on=True)
            return 0


def _tell(worker: WorkerState, change_id: int, *, goes_on: bool = False) -> None:
    step = worker.bench.session.step
    at = worker.generation
    worker.member.tell(StoppedFor(generation=at, change_id=change_id, step=step, goes_on=goes_on))

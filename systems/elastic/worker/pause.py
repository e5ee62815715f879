"""Pause of a worker that has stopped for a change made while no worker trains (``stops_first``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from systems.runtime.wire.groups import GroupLost

if TYPE_CHECKING:
    from systems.elastic.worker.loop import ElasticLoop


def wait_for_switch(loop: ElasticLoop, change_id: int) -> int:
    """Wait until the leader says how to go on, and return the generation to switch to.

    Returns:
        The generation; 0 to go on in the present one.

    Raises:
        GroupLost: all workers are halted meanwhile, or this worker is dismissed.
    """
    _tell(loop, change_id)
    while True:
        message = loop.member.directives.get()
        if message["kind"] == "exit":
            loop.is_dismissed = True
        if loop.is_halted:
            loop.member.forget("stopped")
            raise GroupLost("halted")
        generation = message.get("generation", 0)
        is_known = generation > loop.generation and generation in loop.topologies
        if message["kind"] == "announce" and is_known:
            loop.member.forget("stopped")
            return int(generation)
        if message["kind"] == "cancel" and message["change_id"] == change_id:
            _tell(loop, change_id, goes_on=True)
            return 0


def _tell(loop: ElasticLoop, change_id: int, *, goes_on: bool = False) -> None:
    step = loop.bench.session.step
    loop.tell("stopped", loop.generation, change_id=change_id, step=step, goes_on=goes_on)

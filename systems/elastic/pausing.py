"""A worker that has stopped for a change which is made while nobody trains (``stops_first``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from systems.elastic.groups import GroupLost

if TYPE_CHECKING:
    from systems.elastic.elastic_loop import ElasticLoop


def wait_for_switch(loop: ElasticLoop, change_id: int) -> int:
    """Train no more until the leader says in which generation, or 0 for the present one.

    Raises:
        GroupLost: somebody died meanwhile.
    """
    loop.member.has_stopped = True
    try:
        while True:
            message = loop.member.directives.get()
            if loop.is_halted:
                raise GroupLost("halted")
            if message["kind"] == "announce" and message["generation"] > loop.generation:
                return int(message["generation"])
            if message["kind"] == "cancel" and message["change_id"] == change_id:
                return 0
    finally:
        loop.member.has_stopped = False

"""The way out of a job, when a worker's last step has ended."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from systems.elastic.elastic_loop import ElasticLoop


class Outcome(Enum):
    """How a worker's training ends."""

    FINISHED = "finished"
    STOPPED = "stopped"
    LEFT = "left"


def leave(loop: ElasticLoop, outcome: Outcome) -> bool:
    """Say that no step follows, and part from the others as the outcome asks.

    True: the job is finished and this worker is the first, so ``finish`` is to follow.
    """
    report, member = loop.bench.report, loop.member
    report.flush()
    is_first = loop.membership.members[:1] == (loop.worker,)
    loop.giving.end()
    loop.client.send(
        {
            "kind": "left",
            "finished": outcome is Outcome.FINISHED,
            "overruns": loop.pacer.num_overruns,
            **report.standing(),
        }
    )
    if outcome is not Outcome.LEFT and is_first:
        member.quiet()
        if outcome is Outcome.FINISHED:
            return True
        report.save("saved")
    elif not loop.is_dismissed:
        # A worker that goes at once could break the connection on which another still
        # receives the end of the last sum.
        member.resign()
        while (message := member.directives.get())["kind"] not in ("exit", "dismissed"):
            if outcome is Outcome.LEFT:
                _help(loop, message)
    member.leave()
    return False


def _help(loop: ElasticLoop, message: Mapping[str, Any]) -> None:
    """Somebody died while this worker was about to go: it may have the last step alone."""
    if message["kind"] == "halt":
        loop.tell_halted(message["generation"])
    elif message["kind"] == "resume" and message["source"] == loop.worker:
        behind = [(str(address), int(port)) for address, port in message["behind"].values()]
        if behind:
            loop.giving.send(behind, loop.bench.session.step, loop.bench.values())


def finish(loop: ElasticLoop, results: Mapping[str, Any]) -> None:
    """Leave as the first worker of a finished job, with its results."""
    loop.member.leave()
    standing = loop.bench.report.standing()
    loop.client.send({"kind": "finished", "results": results, **standing})

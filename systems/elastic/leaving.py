"""The way out of a job, when a worker's last step has ended."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.contracts.marks import Doing
from systems.elastic.recovery import Membership

if TYPE_CHECKING:
    from systems.elastic.elastic_loop import ElasticLoop


class Outcome(StrEnum):
    """How a worker's training ends."""

    FINISHED = "finished"
    STOPPED = "stopped"
    LEFT = "left"


ENDS = (Outcome.FINISHED, Outcome.STOPPED)
"""Outcomes that are the whole job's."""


def agree_to_end(loop: ElasticLoop) -> bool:
    """Tell the other workers of a script that this one's loop has ended; whether theirs have, too.

    The words of a step carry that. A worker that goes on sends its own words in its next step, and
    the sum of the two says that the workers disagree.

    Raises:
        GroupLost: a worker was lost meanwhile.
    """
    group = loop.group
    assert group is not None
    loop.words.begin(group, [(loop.trainer.num_losses, 1.0)], None)
    return loop.words.end().losses[loop.trainer.num_losses] == group.size


def leave(loop: ElasticLoop, outcome: Outcome) -> bool:
    """Say that no step follows, and part from the others as the outcome asks.

    True: the job is finished and this worker is the first, so ``finish`` is to follow.
    """
    report, member = loop.bench.report, loop.member
    loop.bench.mark.now(Doing.LEAVE)
    report.flush()
    if outcome in ENDS:
        loop.giving.cancel()  # the job is over, also for those that were about to join it
    loop.giving.end()
    loop.client.send(
        {
            "kind": "left",
            "finished": outcome is Outcome.FINISHED,
            "overruns": loop.num_overruns,
            **report.standing(),
        }
    )
    if loop.halt > loop.resumed:  # it came before the outcome was known to whoever heard it
        tell_halted(loop, loop.halt)
    if outcome is Outcome.LEFT:
        # It leads on, if it did: newcomers cannot before they have entered. Who never had the state
        # is of no use to others.
        if loop.has_state and not loop.is_dismissed:
            _stand_by(loop)
    elif loop.membership.members[0] == loop.worker or _stand_by(loop):
        if outcome is Outcome.FINISHED:
            return True
        report.save("saved")
    member.leave(hands_over=outcome is Outcome.LEFT)
    member.write_log()
    return False


def _stand_by(loop: ElasticLoop) -> bool:
    """Wait until this worker may go, at the service of those that need its state.

    A worker that went at once could break the connection on which another still receives the
    end of the last sum; and one that died may have been the only other with the last step.

    True: the job is over, its first worker has died, and this one is the first now.
    """
    while True:
        message = loop.member.directives.get()
        match message["kind"]:
            case "exit" | "dismissed":
                return False
            case "resume" if message["outcome"]:
                loop.generation = message["generation"]
                loop.membership = Membership.from_message(message)
                if loop.membership.members[0] == loop.worker:
                    loop.bench.report.complete()
                    loop.telling.over(loop.generation, loop.membership)
                    return True
            case "resume" if message["source"] == loop.worker:
                give(loop, message)


def tell_halted(loop: ElasticLoop, number: int) -> None:
    """Tell the leader where this worker stopped, and where it would take a state."""
    outcome = loop.outcome
    topology = loop.topologies.get(loop.generation)
    ahead = [each for each in loop.topologies.values() if each.generation > loop.generation]
    address, port = ("", 0) if outcome is not None else loop.taking.listen()
    loop.tell(
        "halted",
        loop.generation,
        number=number,
        step=loop.bench.session.step if loop.has_state else -1,
        address=address,
        port=port,
        outcome=outcome.value if outcome in ENDS else "",
        **loop.membership.to_message(),
        change_id=loop.last_change_id if topology is None else topology.change_id,
        newcomers=[joiner for each in ahead for joiner in each.joiners],
    )


def give(loop: ElasticLoop, message: Mapping[str, Any]) -> None:
    """As the one whose state all go on from: log what the dead could not, and give the state
    to those that are behind."""
    loop.bench.report.complete()
    behind = [(str(address), int(port)) for address, port in message["behind"].values()]
    if behind:
        step, values = loop.bench.session.step, loop.bench.values()
        loop.giving.send(behind, message["generation"], step, values)


def finish(loop: ElasticLoop, results: Mapping[str, Any]) -> None:
    """Leave as the first worker of a finished job, with its results."""
    loop.member.leave(hands_over=False)
    loop.member.write_log()
    standing = loop.bench.report.standing()
    loop.client.send({"kind": "finished", "results": results, **standing})

"""Steps by which a worker leaves a job after its last training step."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.contracts.marks import Doing
from systems.elastic.wire.recovery_plan import Membership

if TYPE_CHECKING:
    from systems.elastic.worker.loop import ElasticLoop


class Outcome(StrEnum):
    """Way in which a worker's training ends."""

    FINISHED = "finished"
    STOPPED = "stopped"
    LEFT = "left"


ENDS = (Outcome.FINISHED, Outcome.STOPPED)
"""Outcomes that end the whole job."""


def agree_to_end(loop: ElasticLoop) -> bool:
    """Tell a script's other workers that this one's loop has ended. Return whether all have.

    A step's words carry this. A worker that goes on sends the usual words of its next step, and
    the sum of both shows that the workers disagree.

    Raises:
        GroupLost: a worker was lost meanwhile.
    """
    group = loop.group
    assert group is not None
    loop.words.begin(group, [(loop.trainer.num_losses, 1.0)], None)
    return loop.words.end().losses[loop.trainer.num_losses] == group.size


def leave(loop: ElasticLoop, outcome: Outcome) -> bool:
    """Tell the driver that no step follows, and part from the other workers.

    Returns:
        True if the job is finished and this worker is the first: ``finish`` must follow.
    """
    report, member = loop.bench.report, loop.member
    loop.bench.mark.now(Doing.LEAVE)
    report.flush()
    if outcome in ENDS:
        loop.giving.cancel()  # the job is over for workers about to join as well
    loop.giving.end()
    loop.client.send(
        {
            "kind": "left",
            "finished": outcome is Outcome.FINISHED,
            "overruns": loop.num_overruns,
            **report.standing(),
        }
    )
    if loop.halt > loop.resumed:  # it came before the outcome: ``Hearing`` did not answer
        tell_halted(loop, loop.halt)
    if outcome is Outcome.LEFT:
        # A leaving leader leads on meanwhile: newcomers cannot lead before they have entered.
        # Other workers do not need a worker that never had the state.
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
    """Wait until this worker may go, and give its state to workers that need it meanwhile.

    A worker that went at once could break the connection over which another still receives the
    end of the last sum. If another worker dies, this one may be the last with the last step.

    Returns:
        True if the job is over, its first worker has died, and this worker is now the first.
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
    """Tell the leader where this worker stopped, and the address where it can receive a state."""
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
    """Serve as the source of a recovery, from whose state all workers go on.

    The source completes the log for the dead, and sends its state to the workers behind.
    """
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

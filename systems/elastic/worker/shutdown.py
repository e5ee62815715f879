"""Steps by which a worker leaves a job after its last training step."""

from __future__ import annotations

from harness.contracts.marks import WorkerPhase
from systems.elastic.wire.messages import Dismissed, HaltedAt, Resume
from systems.elastic.wire.recovery_plan import Halted
from systems.elastic.worker.state import ENDS, Outcome, WorkerState
from systems.runtime.wire.messages import Left, MayExit, StoppedAtCheckpoint, finished


def agree_to_end(worker: WorkerState) -> bool:
    """Tell a script's other workers that this one's loop has ended. Return whether all have.

    A step's words carry this. A worker that goes on sends the usual words of its next step, and
    the sum of both shows that the workers disagree.

    Raises:
        GroupLost: a worker was lost meanwhile.
    """
    group = worker.group
    assert group is not None
    worker.words.begin(group, [(worker.trainer.num_losses, 1.0)], None)
    return worker.words.end().losses[worker.trainer.num_losses] == group.size


def leave(worker: WorkerState, outcome: Outcome) -> bool:
    """Tell the driver that no step follows, and part from the other workers.

    Returns:
        True if the job is finished and this worker is the first: ``finish`` must follow.
    """
    report, member = worker.bench.report, worker.member
    worker.bench.mark.now(WorkerPhase.LEAVE)
    report.records.flush()
    if outcome in ENDS:
        worker.giving.cancel()  # the job is over for workers about to join as well
    worker.giving.end()
    worker.client.send(
        Left(
            progress=report.progress(),
            finished=outcome is Outcome.FINISHED,
            overruns=worker.num_overruns,
        )
    )
    if (
        worker.halt > worker.resumed
    ):  # it came before the outcome: ``LeaderCallbacks`` did not answer
        tell_halted(worker, worker.halt)
    if outcome is Outcome.LEFT:
        # A leaving leader leads on meanwhile: newcomers cannot lead before they have entered.
        # Other workers do not need a worker that never had the state.
        if worker.has_state and not worker.is_dismissed:
            _stand_by(worker)
    elif worker.membership.members[0] == worker.name or _stand_by(worker):
        if outcome is Outcome.FINISHED:
            return True
        report.records.save(StoppedAtCheckpoint)
    member.leave(hands_over=outcome is Outcome.LEFT)
    member.write_log()
    return False


def _stand_by(worker: WorkerState) -> bool:
    """Wait until this worker may go, and give its state to workers that need it meanwhile.

    A worker that went at once could break the connection over which another still receives the
    end of the last sum. If another worker dies, this one may be the last with the last step.

    Returns:
        True if the job is over, its first worker has died, and this worker is now the first.
    """
    while True:
        message = worker.member.directives.get()
        match message:
            case MayExit() | Dismissed():
                return False
            case Resume() if message.plan.outcome:
                worker.generation = message.generation
                worker.membership = message.plan.membership
                if worker.membership.members[0] == worker.name:
                    worker.bench.report.complete()
                    worker.telling.over(worker.generation, worker.membership)
                    return True
            case Resume() if message.plan.source == worker.name:
                give(worker, message)


def tell_halted(worker: WorkerState, number: int) -> None:
    """Tell the leader where this worker stopped, and the address where it can receive a state."""
    outcome = worker.outcome
    topology = worker.topologies.get(worker.generation)
    ahead = [each for each in worker.topologies.values() if each.generation > worker.generation]
    address, port = ("", 0) if outcome is not None else worker.taking.listen()
    report = Halted(
        generation=worker.generation,
        step=worker.bench.session.step if worker.has_state else -1,
        address=address,
        port=port,
        outcome=outcome.value if outcome in ENDS else "",
        membership=worker.membership,
        change_id=worker.last_change_id if topology is None else topology.change_id,
        newcomers=tuple(joiner for each in ahead for joiner in each.joiners),
    )
    worker.member.tell(HaltedAt(number=number, report=report))


def give(worker: WorkerState, message: Resume) -> None:
    """Serve as the source of a recovery, from whose state all workers go on.

    The source completes the log for the dead, and sends its state to the workers behind.
    """
    worker.bench.report.complete()
    behind = list(message.plan.behind.values())
    if behind:
        step, values = worker.bench.session.step, worker.bench.values()
        worker.giving.send(behind, message.generation, step, values)


def finish(worker: WorkerState, digests: dict[str, str], metrics: dict[str, float]) -> None:
    """Leave as the first worker of a finished job, with its results."""
    worker.member.leave(hands_over=False)
    worker.member.write_log()
    worker.client.send(finished(worker.bench.report.progress(), digests, metrics))

"""Plan after a worker's death: which survivors go on, from which step and with whose state.

Source: EDL, section 4.3 (forced exit). ``approximate``: the survivors redo the mini-batch. If their
step counts differ, all take the lowest rank's state. ``consistent``: they go back to the last
checkpoint.

``exact`` is ours: the survivors go on from the last step that any of them committed. A worker
commits a step only when gradients and words came from all workers, and at every step boundary all
workers have the same state. So the result is bitwise that of a job which the dead workers had left
gracefully at that step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from systems.runtime.wire.protocol import Count, Number, Port


class Membership(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Workers that train, by rank, and the global batch that they share."""

    members: tuple[str, ...]
    global_batch: Count
    virtual_workers: tuple[Count, ...] = ()
    """Virtual workers of each member; empty if no plan gives them, and the members share evenly."""


class Halted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A survivor's report of where it stopped."""

    generation: Count
    """Generation in whose group the worker trained last; 0 if in none."""
    step: Number
    """Number of steps that the worker has committed; -1 if it does not have the whole state."""
    address: str
    port: Port
    """Port at ``address`` where the worker takes a state; 0 if it takes none."""
    outcome: str = ""
    """Outcome of the worker's training (``leaving.Outcome``); empty while the worker trains."""
    membership: Membership | None = None
    """Membership of ``generation``; a leader that followed another leader may not know it."""
    change_id: Number | None = None
    """Id of the last change that the worker went through; None if there was none."""
    newcomers: tuple[str, ...] = ()
    """Joiners of generations that this worker has heard of, but not entered.

    They may have entered one already.
    """


@dataclass
class Recovery:
    """One attempt to go on; another death begins another attempt."""

    number: int
    """Number of the recovery, and of the generation that follows it."""
    reason: str
    """Reason that is given if a change fails because of this recovery."""
    told: set[str] = field(default_factory=set)
    """Workers that were told to halt."""
    halted: dict[str, Halted] = field(default_factory=dict)
    resumed: Membership | None = None

    @property
    def newcomers(self) -> set[str]:
        """Joiners that may train in a generation which no halted worker has entered."""
        return {worker for report in self.halted.values() for worker in report.newcomers}


class ResumePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Content of the second message to the survivors: how they go on."""

    membership: Membership
    from_generation: Count
    """Generation whose members go on: the present one, or the one being switched to."""
    step: Count
    source: str
    """Worker that gives its state to the workers behind."""
    behind: Mapping[str, tuple[str, Port]]
    """Workers that take the source's state, each with the address and port where it listens."""
    from_checkpoint: bool
    change_id: Number | None
    """Id of the last change that the survivors went through; None if there was none."""
    outcome: str = ""
    """Outcome of the job, which the first member only reports; empty if training goes on."""


def plan_resume(
    halted: Mapping[str, Halted],
    memberships: Mapping[int, Membership],
    dead: Collection[str],
    mode: str,
) -> ResumePlan | None:
    """Return how the survivors go on; None if no survivor has the whole state.

    Args:
        halted: reports of all survivors, with the leavers and joiners of a switch under way. A
            member without a report has left.
        memberships: memberships of the generations that a survivor may be in.
        dead: all workers that have ever died.
        mode: ``consistent``, ``approximate`` or ``exact``.
    """
    whole = {worker: at for worker, at in halted.items() if at.step >= 0}
    # A new leader may not have heard of the generation that an earlier one led the workers to.
    known = {at.generation: at.membership for at in whole.values() if at.membership is not None}
    known |= memberships
    generations = [at.generation for at in whole.values() if at.generation in known]
    if not generations:
        return None
    from_generation = max(generations)  # if one worker has switched, all were about to
    target = known[from_generation]
    change_id = next(at.change_id for at in whole.values() if at.generation == from_generation)
    members = tuple(w for w in target.members if w in halted and w not in dead)
    over = [worker for worker in members if halted[worker].outcome]
    if over:
        return _end(over, members, from_generation, target.global_batch, halted, change_id)
    candidates = [worker for worker in members if worker in whole]
    candidates += sorted(set(whole) - set(members))  # only a leaver may have the last step's state
    if not members:
        return None
    if mode == "exact":
        source = max(candidates, key=lambda worker: whole[worker].step)
    else:
        source = candidates[0]
    step = whole[source].step
    behind = {
        worker: (halted[worker].address, halted[worker].port)
        for worker in members
        if halted[worker].step != step
    }
    from_checkpoint = mode == "consistent"
    return ResumePlan(
        membership=Membership(members, target.global_batch),
        from_generation=from_generation,
        step=step,
        source=source,
        behind={} if from_checkpoint else behind,
        from_checkpoint=from_checkpoint,
        change_id=change_id,
    )


def _end(
    over: list[str],
    members: tuple[str, ...],
    from_generation: int,
    global_batch: int,
    halted: Mapping[str, Halted],
    change_id: int | None,
) -> ResumePlan:
    """Return the plan of a job that is over: a survivor has made the last step.

    The survivors with that state come first. The others need no state, whatever the mode.
    """
    others = tuple(worker for worker in members if worker not in over)
    return ResumePlan(
        membership=Membership((*over, *others), global_batch),
        from_generation=from_generation,
        step=halted[over[0]].step,
        source=over[0],
        behind={},
        from_checkpoint=False,
        change_id=change_id,
        outcome=halted[over[0]].outcome,
    )

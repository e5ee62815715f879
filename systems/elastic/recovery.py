"""How the survivors of a worker's death go on: who, from which step, with whose state.

Source: EDL, section 4.3 (forced exit). ``approximate``: the survivors redo the mini-batch, and
where their counts differ the lowest rank's state is everybody's. ``consistent``: they go back
to the last checkpoint. ``exact`` is ours: they go on from the last step that anybody committed.
A step is committed only once its gradients and words came from all workers, and the state is
the same on all of them at every boundary; so this is bitwise what would have followed if the
dead had left gracefully at that step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from systems.runtime.control import Message


@dataclass(frozen=True, slots=True)
class Membership:
    """Who trains, by rank, and the global batch they share."""

    members: tuple[str, ...]
    global_batch: int
    virtual_workers: tuple[int, ...] = ()
    """Virtual workers of each member, where a plan gives them; else they share evenly."""

    def to_message(self) -> dict[str, Any]:
        """As a part of control messages."""
        return {
            "members": list(self.members),
            "global_batch": self.global_batch,
            "virtual_workers": list(self.virtual_workers),
        }

    @classmethod
    def from_message(cls, message: Message) -> Membership:
        """The one in a control message."""
        virtual_workers = tuple(message.get("virtual_workers", ()))
        return cls(tuple(message["members"]), message["global_batch"], virtual_workers)


@dataclass(frozen=True, slots=True)
class Halted:
    """Where a survivor stopped."""

    generation: int
    """In whose group it worked last; 0 if in none."""
    step: int
    """Steps it has committed; -1 if it has not the whole state."""
    address: str
    port: int
    """Where it takes a state; nothing where it will not."""
    outcome: str = ""
    """How its training has ended (``leaving.Outcome``), if it has: no step follows."""
    membership: Membership | None = None
    """Of that generation, which the leader may not have heard of: one before it led there."""
    change_id: int | None = None
    """Of the last change that it went through, if of any."""
    newcomers: tuple[str, ...] = ()
    """Who joins in a generation that it has heard of and not entered: they may have entered it."""


@dataclass
class Recovery:
    """One attempt to go on; another death begins another."""

    number: int
    """Also the number of the generation that follows."""
    reason: str
    """Why, to whom a change fails by it."""
    told: set[str] = field(default_factory=set)
    """Who was told to halt."""
    halted: dict[str, Halted] = field(default_factory=dict)
    resumed: Membership | None = None

    @property
    def newcomers(self) -> set[str]:
        """Who may work in a generation that none of those has entered that have halted."""
        return {worker for report in self.halted.values() for worker in report.newcomers}

    def halt_message(self) -> Message:
        """What survivors are told first."""
        return {"kind": "halt", "generation": self.number}


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """What the survivors are told next."""

    membership: Membership
    from_generation: int
    """The generation whose members go on: the present one, or the one being switched to."""
    step: int
    source: str
    """Who gives its state to those that are behind."""
    behind: Mapping[str, tuple[str, int]]
    """Who takes it, and where."""
    from_checkpoint: bool
    change_id: int | None
    """The last change that they have gone through, if any."""
    outcome: str = ""
    """If not empty, the job's training is over, and the first member only says so."""

    def message(self, recovery: Recovery) -> Message:
        """This plan as a control message."""
        return {
            "kind": "resume",
            "generation": recovery.number,
            **self.membership.to_message(),
            "step": self.step,
            "source": self.source,
            "behind": dict(self.behind),
            "from_checkpoint": self.from_checkpoint,
            "change_id": self.change_id,
            "outcome": self.outcome,
        }


def plan_resume(
    halted: Mapping[str, Halted],
    memberships: Mapping[int, Membership],
    dead: Collection[str],
    mode: str,
) -> ResumePlan | None:
    """How survivors go on; None if none of them has the whole state.

    Args:
        halted: every survivor; leavers and joiners of a switch under way are among them. A
            member that is not has left.
        memberships: of the generations that somebody may be in.
        dead: all that have ever died.
        mode: ``consistent``, ``approximate`` or ``exact``.
    """
    whole = {worker: at for worker, at in halted.items() if at.step >= 0}
    # Also of those that a leader after the one that led there has not heard of.
    known = {at.generation: at.membership for at in whole.values() if at.membership is not None}
    known |= memberships
    generations = [at.generation for at in whole.values() if at.generation in known]
    if not generations:
        return None
    from_generation = max(generations)  # if one has switched, all were about to
    target = known[from_generation]
    change_id = next(at.change_id for at in whole.values() if at.generation == from_generation)
    members = tuple(w for w in target.members if w in halted and w not in dead)
    over = [worker for worker in members if halted[worker].outcome]
    if over:
        return _end(over, members, from_generation, target.global_batch, halted, change_id)
    candidates = [worker for worker in members if worker in whole]
    candidates += sorted(set(whole) - set(members))  # a leaver may be the only one that knows
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
    """Somebody has made the last step, so there is nothing to go on to, whatever the mode: who
    has its state comes first, and the others need it no more."""
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

"""What one worker of the model knows (``model_workers``)."""

from dataclasses import dataclass, field

from systems.elastic.wire.messages import MemberStatus
from systems.elastic.wire.recovery_plan import Halted, Membership

CHECKPOINT_EVERY = 3
"""Steps, where a recovery goes back to a checkpoint."""


@dataclass
class Peer:
    name: str
    generation: int = 0
    step: int = -1
    membership: Membership | None = None
    halted: int = 0
    pause: int = 0
    """1 more than the change for which it was told to have all stop; 0: none."""
    stops_for: int = 0
    """As ``pause``: for this it will stop, as soon as its step is committed."""
    stopped_for: int = 0
    """1 more than the change for which it has stopped; 0: none."""
    announced: int = 0
    parted: tuple | None = None
    """Generation and members of a recovery that went on without it."""
    made: int | None = None
    """The last change that it went through."""
    entered_by: int | None = None
    """As ``made`` was when it became a member."""
    directives: list = field(default_factory=list)
    """What it reads only when it has stopped."""
    topology: dict = field(default_factory=dict)
    inbox: list = field(default_factory=list)
    gone: bool = False
    follows: bool = False
    """It has greeted the leader."""
    passes_on: list = field(default_factory=list)
    """What the driver told it, as the leader, before it knew that it leads."""
    tried: int = 0
    """The last recovery that it took part in."""
    standing: tuple | None = None
    """Generation and members by which it would lead; None: it does not stand for election."""
    survived: set = field(default_factory=set)
    """Who had died when it entered its generation."""
    facts: dict = field(default_factory=dict)
    """The last of each kind that it has said, which every new leader is told."""

    def starts(self):
        """It waits no more for what becomes of a change."""
        self.stops_for = self.stopped_for = 0
        self.facts.pop("stopped", None)

    @property
    def status(self):
        """With what it greets a leader."""
        return MemberStatus(
            members=self.standing[1].members if self.standing else (),
            highest=max([self.generation, self.halted, 1, *self.topology]),
            change_id=self.entered_by,
            announced=self.announced,
            receiver=("h", 1) if "prepared" in self.facts else None,
        )

    def take_state(self, plan, source):
        """At the step that all go on from after a recovery, with the state that it wants."""
        step = plan.step
        if plan.from_checkpoint:
            step -= step % CHECKPOINT_EVERY
        elif self.name in plan.behind:
            assert source.step >= step
        else:
            assert self.step == step
        self.step = step

    def report(self):
        """Where it has stopped."""
        topology = self.topology.get(self.generation)
        ahead = [topology for number, topology in self.topology.items() if number > self.generation]
        return Halted(
            self.generation, self.step, "h", 1, "",
            self.membership or Membership((), 12),
            topology.change_id if topology else self.made,
            tuple(name for each in ahead for name in each.joiners),
        )  # fmt: skip

    @property
    def trains(self):
        """Whether it would make a step."""
        return not (self.halted or self.stops_for or self.stopped_for or self.parted)

    @property
    def awaits(self):
        """If it waits to be let go: the generation, and who has to work in it first."""
        if self.parted is not None:
            return self.parted
        if self.membership is None or self.name in self.membership.members:
            return None
        return self.generation, self.membership.members

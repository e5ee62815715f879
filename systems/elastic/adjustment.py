"""A change of the members as the leader knows it; the driver's side of it is ``adjusting``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from systems.elastic.recovery import Membership
from systems.runtime.control import Message


@dataclass
class Adjustment:
    """A change of the members that is under way."""

    change_id: int
    target: Membership
    joiners: tuple[str, ...]
    generation: int = 0
    """Given when the topology is sent; 0 before."""
    built: set[str] = field(default_factory=set)
    caught_up: set[str] = field(default_factory=set)
    is_announced: bool = False

    def topology_message(
        self, old: Sequence[str], receivers: Mapping[str, tuple[str, int]]
    ) -> Message:
        """Tells everybody who is to train, and who gives the state to whom.

        Args:
            old: the present members.
            receivers: where joiners take the state.
        """
        donors: dict[str, list[tuple[str, int]]] = {}
        for index, joiner in enumerate(self.joiners):
            donors.setdefault(old[index % len(old)], []).append(receivers[joiner])
        return {
            "kind": "topology",
            "generation": self.generation,
            "change_id": self.change_id,
            **self.target.to_message(),
            "joiners": list(self.joiners),
            "donors": donors,
        }

    def cancel_message(self) -> Message:
        """Tells a member that it will not be made."""
        return {"kind": "cancel", "generation": self.generation, "change_id": self.change_id}


def refusal(
    target: Membership, members: Sequence[str], joiners: Sequence[str], dead: Collection[str]
) -> str:
    """Why these members cannot become the target's with these joiners; empty: they can."""
    unknown = set(target.members) - {*members, *joiners}
    if gone := sorted(set(dead).intersection(target.members)):
        return f"{', '.join(gone)} died"
    if unknown:
        return f"{', '.join(sorted(unknown))} neither train nor join"
    if len(target.members) > target.global_batch:
        return f"{len(target.members)} workers cannot share {target.global_batch} samples"
    return ""

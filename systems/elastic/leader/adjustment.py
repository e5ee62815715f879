"""Leader's record of a change of the members; the driver has its own (``pending_change.py``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from systems.elastic.wire.messages import Cancel, Topology
from systems.elastic.wire.recovery_plan import Membership


@dataclass
class Adjustment:
    """Change of the members that is under way, as the leader sees it."""

    change_id: int
    target: Membership
    joiners: tuple[str, ...]
    generation: int = 0
    """Number of the new generation, given when the topology is sent; 0 before that."""
    built: set[str] = field(default_factory=set)
    caught_up: set[str] = field(default_factory=set)
    is_announced: bool = False

    def topology(self, old: Sequence[str], receivers: Mapping[str, tuple[str, int]]) -> Topology:
        """Return the message that names the new members, and which member sends which joiner state.

        Args:
            old: the present members.
            receivers: address and port where each joiner receives the state.
        """
        donors: dict[str, list[tuple[str, int]]] = {}
        for index, joiner in enumerate(self.joiners):
            donors.setdefault(old[index % len(old)], []).append(receivers[joiner])
        return Topology(
            generation=self.generation,
            change_id=self.change_id,
            membership=self.target,
            joiners=self.joiners,
            donors={donor: tuple(addresses) for donor, addresses in donors.items()},
        )

    def cancellation(self) -> Cancel:
        """Return the message that tells a member that the change was given up."""
        return Cancel(generation=self.generation, change_id=self.change_id)


def refusal(
    target: Membership, members: Sequence[str], joiners: Sequence[str], dead: Collection[str]
) -> str:
    """Return why the members cannot become ``target`` with these joiners; empty if they can."""
    unknown = set(target.members) - {*members, *joiners}
    if gone := sorted(set(dead).intersection(target.members)):
        return f"{', '.join(gone)} died"
    if unknown:
        return f"{', '.join(sorted(unknown))} neither train nor join"
    if len(target.members) > target.global_batch:
        return f"{len(target.members)} workers cannot share {target.global_batch} samples"
    return ""

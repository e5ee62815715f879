"""What a change costs: measured or assumed cells, and the rule for sizes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.contracts.engine import ChangeKind
from harness.contracts.launcher import Warmth


@dataclass(frozen=True, slots=True)
class RescaleCost:
    """Cost of one change, seconds.

    Training goes on at the old size during the preparation; nothing trains during the
    pause. Old and new slots are held until the end of both.
    """

    preparation_s: float
    pause_s: float
    phases_s: Mapping[str, float] = field(default_factory=dict)
    deviation: float = 0.0
    """Standard deviation of its seconds from one trial to the next, over them; 0: not known."""

    def times(self, factor: float) -> RescaleCost:
        """Each part times a factor."""
        return RescaleCost(
            self.preparation_s * factor,
            self.pause_s * factor,
            {phase: seconds * factor for phase, seconds in self.phases_s.items()},
            self.deviation,
        )


@dataclass(frozen=True, slots=True)
class CostCell:
    """The cost of the changes that match it; None matches everything.

    ``from_slots`` and ``to_slots`` are both given or both None.
    """

    cost: RescaleCost
    backend: str | None = None
    workload: str | None = None
    kind: ChangeKind | None = None
    from_slots: int | None = None
    to_slots: int | None = None
    warmth: Warmth | None = None
    """How the backend started its workers."""

    @property
    def rank(self) -> tuple[bool, ...]:
        """How specific the cell is; larger is asked first."""
        fields = self.workload, self.backend, self.kind, self.warmth
        return tuple(value is not None for value in fields)

    def describe(self) -> str:
        """Its match fields, for messages."""
        sizes = "any sizes" if self.from_slots is None else f"{self.from_slots}→{self.to_slots}"
        return (
            f"{self.backend or 'any backend'}, {self.workload or 'any workload'},"
            f" {self.kind.value if self.kind else 'any kind'}, {sizes}"
            + (f", {self.warmth.value}" if self.warmth else "")
        )


def _direction(from_slots: int, to_slots: int) -> int:
    return (to_slots > from_slots) - (to_slots < from_slots)


def find_cost(
    cells: Sequence[CostCell],
    backend: str,
    workload: str,
    kind: ChangeKind,
    from_slots: int,
    to_slots: int,
    warmth: Warmth | None = None,
) -> RescaleCost | None:
    """The cost of one change, or None where no cell matches.

    A cell that names a warmth matches no other (None: any). Cells that name the workload come
    before cells that do not, then those that name the backend, then those that name the kind,
    then those that name the warmth. Among equally specific cells: the exact sizes;
    else the nearest larger ones in the same direction (both sizes at least as large, least
    sum of differences, then the smaller target, so a cost is rather over- than
    underestimated); else a cell without sizes.
    """
    matching = [
        cell
        for cell in cells
        if cell.backend in (None, backend)
        and cell.workload in (None, workload)
        and cell.kind in (None, kind)
        and (warmth is None or cell.warmth in (None, warmth))
    ]
    for rank in sorted({cell.rank for cell in matching}, reverse=True):
        unsized: CostCell | None = None
        best: tuple[int, int, CostCell] | None = None
        for cell in matching:
            if cell.rank != rank:
                continue
            if cell.from_slots is None or cell.to_slots is None:
                unsized = cell
                continue
            apart = (cell.from_slots - from_slots, cell.to_slots - to_slots)
            same_way = _direction(cell.from_slots, cell.to_slots) == _direction(
                from_slots, to_slots
            )
            if min(apart) < 0 or not same_way:
                continue
            if best is None or (sum(apart), cell.to_slots) < best[:2]:
                best = (sum(apart), cell.to_slots, cell)
        if best is not None:
            return best[2].cost
        if unsized is not None:
            return unsized.cost
    return None

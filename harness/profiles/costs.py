"""Costs of changes: measured or assumed cells, and the rule for sizes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.contracts.change import ChangeKind
from harness.contracts.process import Warmth


@dataclass(frozen=True, slots=True)
class RescaleCost:
    """Cost of one change, seconds.

    Training continues at the old size during the preparation, and stops during the pause. Old and
    new slots are held until both have ended.
    """

    preparation_s: float
    pause_s: float
    phases_s: Mapping[str, float] = field(default_factory=dict)
    deviation: float = 0.0
    """Relative standard deviation of the cost from trial to trial; 0: unknown."""

    def times(self, factor: float) -> RescaleCost:
        """Return the cost with each part multiplied by a factor."""
        return RescaleCost(
            self.preparation_s * factor,
            self.pause_s * factor,
            {phase: seconds * factor for phase, seconds in self.phases_s.items()},
            self.deviation,
        )


@dataclass(frozen=True, slots=True)
class CostCell:
    """Cost of all changes that match the cell; a field of None matches everything.

    ``from_slots`` and ``to_slots`` are both given or both None.
    """

    cost: RescaleCost
    backend: str | None = None
    workload: str | None = None
    kind: ChangeKind | None = None
    from_slots: int | None = None
    to_slots: int | None = None
    warmth: Warmth | None = None
    """Warmth with which the backend started its workers."""

    @property
    def rank(self) -> tuple[bool, ...]:
        """Specificity of the cell; cells with a larger rank are tried first."""
        fields = self.workload, self.backend, self.kind, self.warmth
        return tuple(value is not None for value in fields)

    def describe(self) -> str:
        """Return the cell's match fields as text, for messages."""
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
    """Return the cost of one change, or None if no cell matches.

    A cell that names a warmth matches that warmth only; with ``warmth`` None, cells of every warmth
    match. Cells that name the workload come first, then those that name the backend, then those
    that name the kind, then those that name the warmth. Among equally specific cells, the exact
    sizes come first. Next come the nearest larger sizes in the same direction: both sizes at least
    as large, least sum of differences, then the smaller target. A cost is thus over- rather than
    underestimated. A cell without sizes comes last.
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

"""Reader of the ``rescale_costs`` of a profile file, with its checks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.contracts.change import ChangeKind
from harness.contracts.process import Warmth
from harness.profiles.costs import CostCell, RescaleCost
from harness.profiles.document import Document
from harness.profiles.spread import deviation
from harness.profiles.table import number

_KEYS = (
    "backend",
    "warmth",
    "workload",
    "kind",
    "from",
    "to",
    "preparation_s",
    "pause_s",
    "phases_s",
    "trials",
    "spread_s",
    "remark",
)


def read_cost_cells(
    document: Document, value: object, workloads: Sequence[str] | None, problems: list[str]
) -> list[CostCell]:
    """Read the cells of a file; a workload outside ``workloads`` (if given) is a mistake."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        problems.append(
            f"{document.place('rescale_costs')}: is missing or not a list; give cells such as"
            " {preparation_s: 0, pause_s: 5.4}, which without match fields holds for all changes"
        )
        return []
    cells: list[CostCell] = []
    seen: dict[str, str] = {}
    for index, entry in enumerate(value):
        place = document.place("rescale_costs", index)
        if not isinstance(entry, Mapping):
            problems.append(f"{place}: is not a mapping; give at least preparation_s and pause_s")
            continue
        found: list[str] = []
        cell = _read_cell(entry, workloads, found)
        problems.extend(f"{place}: {problem}" for problem in found)
        if cell is None:
            continue
        other = seen.setdefault(cell.describe(), place)
        if other != place:
            problems.append(f"{place}: repeats {other} ({cell.describe()}); keep one of them")
        cells.append(cell)
    return cells


def _read_cell(
    entry: Mapping[str, Any], workloads: Sequence[str] | None, problems: list[str]
) -> CostCell | None:
    problems.extend(
        f"unknown key {key!r}; known: {', '.join(_KEYS)}" for key in entry if key not in _KEYS
    )
    kinds = [kind.value for kind in ChangeKind]
    kind = entry.get("kind")
    if kind is not None and kind not in kinds:
        problems.append(f"kind {kind!r} is unknown; known: {', '.join(kinds)}")
    warmths = [warmth.value for warmth in Warmth]
    warmth = entry.get("warmth")
    if warmth is not None and warmth not in warmths:
        problems.append(f"warmth {warmth!r} is unknown; known: {', '.join(warmths)}")
    workload = entry.get("workload")
    if workload is not None and workloads is not None and workload not in workloads:
        problems.append(
            f"workload {workload!r} has no throughput here; known: {', '.join(sorted(workloads))}"
        )
    sizes = {key: entry.get(key) for key in ("from", "to")}
    if len([size for size in sizes.values() if size is None]) == 1:
        problems.append("has only one of from and to; give both sizes or neither")
    for key, size in sizes.items():
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
            problems.append(f"{key} is {size!r}; use a whole number of slots >= 0")
    seconds = {key: entry.get(key) for key in ("preparation_s", "pause_s")}
    phases = entry.get("phases_s") or {}
    if not isinstance(phases, Mapping):
        problems.append(f"phases_s is {phases!r}; give phase → seconds")
        phases = {}
    if entry.get("spread_s") is not None:
        seconds["spread_s"] = entry["spread_s"]
    for key, value in {**seconds, **{f"phases_s.{key}": phases[key] for key in phases}}.items():
        checked = None if isinstance(value, str) else number(value)
        if checked is None or not math.isfinite(checked) or checked < 0:
            problems.append(f"{key} is {value!r}; give finite seconds >= 0")
    if problems:
        return None
    preparation_s, pause_s = float(entry["preparation_s"]), float(entry["pause_s"])
    apart_s = deviation(entry.get("spread_s"), entry.get("trials"))
    return CostCell(
        cost=RescaleCost(
            preparation_s,
            pause_s,
            {str(phase): float(value) for phase, value in phases.items()},
            apart_s / (preparation_s + pause_s) if preparation_s + pause_s else 0.0,
        ),
        backend=entry.get("backend"),
        workload=workload,
        kind=None if kind is None else ChangeKind(kind),
        from_slots=sizes["from"],
        to_slots=sizes["to"],
        warmth=None if warmth is None else Warmth(warmth),
    )

"""Documents of ours with some of their parts replaced by what no program of ours would write."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.fuzz.target import STRANGER

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, float("inf"),
    float("nan"), "", "0", "a", "../../outside", "/etc/passwd", "/dev/zero", "~", ".", "..", "a/b",
    "\x00", "\x1b]0;x\x07", "<script>alert(1)</script>", "'; DROP TABLE runs; --",
    "${oc.env:HOME}", "${a}", "$x_1$", "[bold]", "\u202e", "\ud7ff", "x" * 3000, "9" * 5000,
    "1e999", "2026-01-01", "nan", "=1+1", f"{STRANGER}.Thing", [], [[]], [None], [1, "a"],
    ["a"] * 40, {}, {"": None}, {"a": {}}, {1: 2, "a": 3}, {"_target_": f"{STRANGER}.Thing"},
    {"path": "/etc/hostname"},
)  # fmt: skip
"""Values for any place of a document."""


class Choices:
    """Decisions that the bytes of an input make; all 0 at their end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def below(self, count: int) -> int:
        """Return a number from 0 to ``count`` - 1."""
        size = 1 if count <= 256 else 2
        part = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(part, "little") % count

    @property
    def rest(self) -> bytes:
        """What is left."""
        return self._data[self._at :]


def edited(document: Any, choices: Choices) -> Any:
    """Return a copy of a document, up to four of its parts replaced, removed, or added to."""
    found = copy.deepcopy(document)
    for _ in range(1 + choices.below(4)):
        places = [*_places(found)]
        if not places:
            break
        container, key = places[choices.below(len(places))]
        action, value = choices.below(8), copy.deepcopy(ODD[choices.below(len(ODD))])
        if action == 0:
            del container[key]
        elif action == 1 and isinstance(container, dict):
            container[value if isinstance(value, str | int) else "more"] = value
        elif action == 2:
            other, name = places[choices.below(len(places))]
            container[key] = copy.deepcopy(other[name])
        else:
            container[key] = value
    return found


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(value, dict | list):
        return
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        yield from _places(value[key])

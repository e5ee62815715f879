"""Which spares there are, and for whom: the local launcher's book-keeping. Starts nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harness.contracts.launcher import ProcessSpec, Spares, SpareSpec

MOST_FAILURES = 3
"""After so many of one kind in a row that ended before they were ready no more of it are made,
unless it was not wanted meanwhile."""

Place: TypeAlias = tuple[tuple[int, ...], frozenset[tuple[str, str]]]
"""Cores and environment: a spare serves any work that is alike in both."""
Kind: TypeAlias = tuple[Place, str, tuple[str, ...]]
"""Place, and how it is prepared: spares that are alike in these stand in for each other."""


@dataclass(slots=True)
class _Spare:
    kind: Kind
    is_ready: bool = False
    is_killed: bool = False


class SparePool:
    """Spares by their ids, which count from -1 down."""

    def __init__(self) -> None:
        self._wanted: Counter[Kind] = Counter()
        self._specs: dict[Kind, SpareSpec] = {}
        self._missing: list[Kind] = []
        """Still to be made since ``want`` was called last."""
        self._spares: dict[int, _Spare] = {}
        self._failures: Counter[Kind] = Counter()
        self._reasons: dict[Kind, str] = {}
        """Why spares of a kind cannot be made."""
        self._last = 0
        self._used = self._missed = 0

    def want(self, specs: Sequence[SpareSpec]) -> list[int]:
        """Have one spare for each of ``specs`` from now on; returns those to kill."""
        self._specs = {_kind(spec): spec for spec in specs}
        wanted = Counter(map(_kind, specs))
        for kind in wanted.keys() - self._wanted.keys():  # what failed before may do now
            self._failures.pop(kind, None)
            self._reasons.pop(kind, None)
        self._wanted = wanted
        missing, surplus = self._wanted.copy(), []
        for number, spare in self._spares.items():
            if spare.is_killed:
                continue
            missing[spare.kind] -= 1
            if missing[spare.kind] < 0:
                spare.is_killed = True
                surplus.append(number)
        self._missing = [kind for kind in missing.elements() if self._can_be_made(kind)]
        return surplus

    def next(self) -> tuple[int, SpareSpec] | None:
        """Id and specification of a spare to be made now: only one at a time."""
        if not self._missing or any(self._is_preparing(spare) for spare in self._spares.values()):
            return None
        kind = self._missing.pop(0)
        self._last -= 1
        self._spares[self._last] = _Spare(kind)
        return self._last, self._specs[kind]

    def take(self, spec: ProcessSpec) -> int | None:
        """The spare that is to do this work, or None.

        A change has begun, then: what is still missing has to wait for the next ``want``.
        """
        self._missing.clear()
        place = _place(spec.cores, spec.env)
        for number, spare in self._spares.items():
            if spare.kind[0] == place and spare.is_ready and not spare.is_killed:
                del self._spares[number]
                self._used += 1
                return number
        self._missed += 1
        return None

    def ready(self, number: int) -> None:
        """A spare is prepared."""
        spare = self._spares[number]
        spare.is_ready = True
        self._failures[spare.kind] = 0

    def ended(self, number: int, how: Callable[[], str]) -> None:
        """A spare has ended, and was not used as far as its parent knows; ``how`` says it."""
        spare = self._spares.pop(number, None)
        if spare is None or spare.is_killed or spare.is_ready:
            return
        self._failures[spare.kind] += 1
        if self._can_be_made(spare.kind):
            self._missing.append(spare.kind)
        else:
            self._missing = [kind for kind in self._missing if kind != spare.kind]
            self._reasons[spare.kind] = f"a spare could not be prepared: {how()}"

    def lost(self, reason: str) -> None:
        """Have all that are wanted made again: their parent has died, and they with it.

        A spare that was being prepared may have ended its parent, so that counts as its failure.
        """
        for spare in self._spares.values():
            if self._is_preparing(spare):
                self._failures[spare.kind] += 1
                if not self._can_be_made(spare.kind):
                    self._reasons[spare.kind] = f"a spare could not be prepared: {reason}"
        self._spares.clear()
        self._missing = [kind for kind in self._wanted.elements() if self._can_be_made(kind)]

    def standing(self) -> Spares:
        """How they stand."""
        spares = self._spares.values()
        return Spares(
            wanted=sum(count for kind, count in self._wanted.items() if self._can_be_made(kind)),
            ready=sum(spare.is_ready and not spare.is_killed for spare in spares),
            alive=len(spares),
            used=self._used,
            missed=self._missed,
            failure=next((r for k, r in self._reasons.items() if k in self._wanted), ""),
        )

    def _can_be_made(self, kind: Kind) -> bool:
        return self._failures[kind] < MOST_FAILURES

    @staticmethod
    def _is_preparing(spare: _Spare) -> bool:
        return not spare.is_ready and not spare.is_killed


def _place(cores: Sequence[int], env: Mapping[str, str]) -> Place:
    return tuple(cores), frozenset(env.items())


def _kind(spec: SpareSpec) -> Kind:
    return _place(spec.cores, spec.env), spec.prepare, spec.argv

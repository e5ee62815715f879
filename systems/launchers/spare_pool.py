"""Book-keeping of the local launcher's spares. The pool itself starts no process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harness.contracts.process import ProcessSpec, Spares, SpareSpec

MOST_FAILURES = 3
"""Number of spares of one kind that may end in a row before they are ready. Then no more of the
kind are made, unless a call of ``want`` left it out before it is wanted again."""

Place: TypeAlias = tuple[tuple[int, ...], frozenset[tuple[str, str]]]
"""Cores and environment; a spare serves any work with the same two."""
Kind: TypeAlias = tuple[Place, str, tuple[str, ...]]
"""Place and preparation; spares of one kind can replace each other."""


@dataclass(slots=True)
class _Spare:
    kind: Kind
    is_ready: bool = False
    is_killed: bool = False


class SparePool:
    """Pool of spares by their ids, which count from -1 down."""

    def __init__(self) -> None:
        self._wanted: Counter[Kind] = Counter()
        self._specs: dict[Kind, SpareSpec] = {}
        self._missing: list[Kind] = []
        """Kinds still to be made since the last ``want``."""
        self._spares: dict[int, _Spare] = {}
        self._failures: Counter[Kind] = Counter()
        self._reasons: dict[Kind, str] = {}
        """Reasons why spares of a kind cannot be made."""
        self._last = 0
        self._used = self._missed = 0

    def want(self, specs: Sequence[SpareSpec]) -> list[int]:
        """Want one spare for each of ``specs`` from now on; return the ids of those to kill."""
        self._specs = {_kind(spec): spec for spec in specs}
        wanted = Counter(map(_kind, specs))
        # A kind that failed before may succeed now.
        for kind in wanted.keys() - self._wanted.keys():
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
        """Return id and specification of a spare to make now, or None; only one is made at a
        time."""
        if not self._missing or any(self._is_preparing(spare) for spare in self._spares.values()):
            return None
        kind = self._missing.pop(0)
        self._last -= 1
        self._spares[self._last] = _Spare(kind)
        return self._last, self._specs[kind]

    def take(self, spec: ProcessSpec) -> int | None:
        """Return the spare that does this work, or None.

        A change has begun then, so missing spares wait for the next ``want``.
        """
        # Preparing a spare now would take the cores of workers that are being started.
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
        """Record that a spare is prepared."""
        spare = self._spares[number]
        spare.is_ready = True
        self._failures[spare.kind] = 0

    def ended(self, number: int, how: Callable[[], str]) -> None:
        """Record the end of a spare that was not used, as far as its parent knows.

        ``how`` returns the reason.
        """
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
        """Record that the fork server has died and all spares with it; all wanted ones are made
        again.

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
        """Return the numbers of spares that are wanted, ready, alive, used and missed."""
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

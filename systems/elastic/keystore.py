"""The small store by which workers agree on one of them: what an election needs, no more.

EDL (section 4.1) asks for an external store with atomic compare-and-swap. Expiry is not part of
the contract: whoever waits measures it on the own clock (``election.py``), so that any store
with compare-and-swap will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class StoreLost(Exception):  # noqa: N818
    """The store cannot be reached. A swap under way may have happened or not: read again."""


class KeyStore(Protocol):
    """Texts under keys. Every method may be called from any thread; all raise ``StoreLost``."""

    def get(self, key: str) -> str | None:
        """What the key holds now, or None if it is void; never waits for it to be set."""
        ...

    def compare_and_swap(
        self, key: str, expected: str | None, desired: str, quiet: bool = False
    ) -> bool:
        """Put ``desired`` there if the key holds ``expected``; whether that was done.

        Args:
            key: the key.
            expected: what it must hold; None: it must be void.
            desired: what it holds then; not empty.
            quiet: watchers need not be woken (a refresh, which concerns nobody).
        """
        ...

    def erase(self, key: str, expected: str) -> bool:
        """Make the key void if it holds ``expected``; whether that was done."""
        ...

    def watch(self, key: str, on_change: Callable[[], None]) -> None:
        """Call ``on_change``, from a thread of the store, soon after the key was changed.

        From the return of this method on no change goes unnoticed, except quiet ones and those
        by someone who died between change and notice: who must not miss those looks again now
        and then. It may also be called without a change. It ends with ``close``.
        """
        ...

    def close(self) -> None:
        """Let go of the connections; the keys stay."""
        ...

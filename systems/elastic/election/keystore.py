"""Contract of the key-value store that a leader election needs.

EDL (section 4.1) asks for an external store with atomic compare-and-swap. Expiry is not part of
the contract: each candidate measures it on its own clock (``election.py``). So any store with
compare-and-swap will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from harness.errors import WorkerError


class StoreLost(WorkerError):  # noqa: N818
    """Loss of the store: it is out of reach. A swap under way may have happened: read again."""


class KeyStore(Protocol):
    """Store of texts under keys.

    Every method may be called from any thread, and may raise ``StoreLost``.
    """

    def get(self, key: str) -> str | None:
        """Return the present text of a key at once, or None if it is void."""
        ...

    def compare_and_swap(
        self, key: str, expected: str | None, desired: str, quiet: bool = False
    ) -> bool:
        """Set a key to ``desired`` if it holds ``expected``. Return whether that was done.

        Args:
            key: the key.
            expected: text that the key must hold; None: it must be void.
            desired: its new text; not empty.
            quiet: watchers need not be woken, since this is a mere refresh.
        """
        ...

    def erase(self, key: str, expected: str) -> bool:
        """Make a key void if it holds ``expected``. Return whether that was done."""
        ...

    def watch(self, key: str, on_change: Callable[[], None]) -> None:
        """Call ``on_change``, from a thread of the store, soon after the key was changed.

        After this method has returned, every change is noticed, with two exceptions: quiet changes,
        and changes by a process that died before it gave notice. A caller that must not miss them
        reads the key again now and then. ``on_change`` may also be called without a change.
        ``close`` ends the watch.
        """
        ...

    def close(self) -> None:
        """Close the connections; the keys stay in the store."""
        ...

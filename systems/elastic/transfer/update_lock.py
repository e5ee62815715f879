"""Lock between the training thread, which updates, and the thread that copies pieces."""

from __future__ import annotations

import threading
import time
from types import TracebackType

_POLL_S = 50e-6


class UpdateLock:
    """Lock held by the training thread around an update, by the copier around one piece's copy.

    The training thread comes first. A plain lock may go to the copier again and again while the
    training thread is still waking up.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_wanted = False
        self.version = 0
        """Count of begins and ends of updates: odd during an update.

        If two readings are equal, no update came between them.
        """

    @property
    def is_updating(self) -> bool:
        """True if the training thread holds the lock."""
        return self.version % 2 == 1

    def __enter__(self) -> None:
        self._is_wanted = True  # before the wait, so that the copier lets this thread go first
        self._lock.acquire()
        self.version += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Before the release: the next holder of the lock has to see the new version.
        self.version += 1
        self._is_wanted = False
        self._lock.release()

    def stable_version(self) -> int:
        """Return the version between two updates; wait for the end of an update under way."""
        while self.is_updating:
            # Waits for the end of the update, without polling.
            with self._lock:
                pass
        return self.version

    def begin_copy(self, version: int) -> bool:
        """Take the lock for a copy if the version is still this one; ``end_copy`` follows.

        Returns:
            False if the version has changed; the lock is then not held.
        """
        # Once the update has begun, the lock itself does the waiting.
        while self._is_wanted and not self.is_updating:
            time.sleep(_POLL_S)  # lets the training thread have the lock first
        self._lock.acquire()
        if self.version == version:
            return True
        self._lock.release()
        return False

    def end_copy(self) -> None:
        """Release the lock."""
        self._lock.release()

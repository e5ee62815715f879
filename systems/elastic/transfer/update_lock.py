"""The lock between the training thread, which updates, and the thread that copies pieces."""

from __future__ import annotations

import threading
import time
from types import TracebackType

_POLL_S = 50e-6


class UpdateLock:
    """Held by the training thread around an update, by the copier for one piece's copy.

    The training thread comes first: a plain lock may go to the copier again and again while
    the training thread is still waking up.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_wanted = False
        self.version = 0
        """Odd while an update is going on; two versions the same: no update in between."""

    @property
    def is_updating(self) -> bool:
        """Whether the training thread holds it."""
        return self.version % 2 == 1

    def __enter__(self) -> None:
        self._is_wanted = True
        self._lock.acquire()
        self.version += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.version += 1
        self._is_wanted = False
        self._lock.release()

    def stable_version(self) -> int:
        """The version between two updates; waits for the end of the present one."""
        while self.is_updating:
            with self._lock:
                pass
        return self.version

    def begin_copy(self, version: int) -> bool:
        """Take the lock for a copy if the version is still this; ``end_copy`` follows."""
        while self._is_wanted and not self.is_updating:
            time.sleep(_POLL_S)  # let it have the lock first
        self._lock.acquire()
        if self.version == version:
            return True
        self._lock.release()
        return False

    def end_copy(self) -> None:
        """Give the lock back."""
        self._lock.release()

"""Claims keep two commands from running one point, and two live points from running at once.

A claim is a lock (``flock``) on files in the folder of the runs. The command that runs a point
holds it, and so does the point's own process. The kernel drops a claim when both have ended,
however they end, so a killed command leaves none.

Each point has a file ``.claim-RUN``, which one command on all hosts holds. Each machine has a file
``.machine-HOST``: a live point holds it alone, simulated points share it. So no other point of this
folder disturbs a live point's clock, as within one sweep.

On NFS claims also hold across hosts, unless it is mounted with ``nolock`` or ``local_lock``. Then
they hold on one machine only. The server drops the claims of a lost host after its lease (NFS 4: 90
s by default), or when the host is back (NFS 3). File systems without any locks (Lustre mounted
without ``flock``) get a warning, and commands run without claims.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.files.owned_names import is_alive
from harness.results.store import StoredRun

LOOK_S = 1.0
"""Seconds between two checks of another command's claim; on NFS each check is a message or two."""
_CLAIM, _MACHINE = ".claim-", ".machine-"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@dataclass(frozen=True, slots=True)
class Holder:
    """Command that holds the claim of a point."""

    run_id: str
    pid: int
    host: str
    since_s: float
    """Time at which it claimed the point, seconds since 1970."""

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since_s))
        return f"process {self.pid} on {self.host}, which runs {self.run_id} since {since}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a claim, because another command has it."""

    is_of_machine: bool
    """True if no other such point can be claimed either, because a live point runs alone."""
    holder: Holder | None
    """Command that has the claim; None: it has not written its name yet."""

    def __str__(self) -> str:
        why = "; a live point runs alone on its machine" if self.is_of_machine else ""
        return f"Waiting for {self.holder or 'another command'}{why}."


class Claim:
    """Locks of one point, until ``release`` or the end of all processes that have them."""

    def __init__(self, locks: Sequence[_Lock] = ()) -> None:
        self._locks = locks

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Open files for the point's process to inherit, so that it keeps the locks if this process
        is killed."""
        return tuple(lock.descriptor for lock in self._locks)

    def release(self) -> None:
        """Release the point for other commands; its process must have ended."""
        for lock in self._locks:
            lock.release()
        self._locks = ()


class Claims:
    """Claims of the points whose runs are stored in one folder."""

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        """Keep claims in the folder ``root``; ``say`` shows a line."""
        self._root = root
        self._say = say
        self._told: set[object] = set()

    def take(
        self, run_id: str, find: Callable[[], StoredRun | None], *, alone: bool
    ) -> StoredRun | Claim | Refusal:
        """Claim a point, unless its run is stored or another command has the claim; do not wait.

        A line reports each command that has the claim, once.

        Args:
            run_id: id of the point's run.
            find: returns its stored run, if there is one.
            alone: true if no other point of this folder may run on this machine (a live point).

        Raises:
            OSError: the folder cannot be written.
        """
        if (found := find()) is not None:
            return found
        self._root.mkdir(parents=True, exist_ok=True)
        try:
            taken = self._take(run_id, alone)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            hint = "run one command at a time with this folder"
            fact = f"its file system has no locks ({error.strerror})"
            self._tell(None, f"warning: {self._root}: {fact}; {hint}")
            return Claim()
        if isinstance(taken, Refusal):
            holder = taken.holder and (taken.holder.pid, taken.holder.host)
            self._tell((None if taken.is_of_machine else run_id, holder), str(taken))
        elif (
            found := find()
        ) is not None:  # the last holder has stored the run since the first check
            taken.release()
            return found
        return taken

    @contextmanager
    def claimed(
        self, run_id: str, find: Callable[[], StoredRun | None], *, alone: bool
    ) -> Iterator[StoredRun | None]:
        """Wait for the claim of a point and hold it; yield the run if it was stored meanwhile.

        Args:
            run_id: as for ``take``.
            find: as for ``take``.
            alone: as for ``take``.

        Raises:
            OSError: the folder cannot be written.
        """
        while isinstance(taken := self.take(run_id, find, alone=alone), Refusal):
            time.sleep(LOOK_S)
        try:
            yield None if isinstance(taken, Claim) else taken
        finally:
            if isinstance(taken, Claim):
                taken.release()

    def _tell(self, key: object, line: str) -> None:
        """Show a line the first time."""
        if key not in self._told:
            self._told.add(key)
            self._say(line)

    def _take(self, run_id: str, alone: bool) -> Claim | Refusal:
        # The machine is locked first, so that a command with a point's claim can start it at once.
        machine = _lock(
            self._root / f"{_MACHINE}{socket.gethostname()}",
            fcntl.LOCK_EX if alone else fcntl.LOCK_SH,
        )
        if machine is None:
            return Refusal(is_of_machine=True, holder=self._first_here())
        path = self._root / f"{_CLAIM}{run_id}"
        try:
            point = _lock(path, fcntl.LOCK_EX)
        except BaseException:
            machine.release()
            raise
        if point is None:
            machine.release()
            return Refusal(is_of_machine=False, holder=_holder(path))
        _write(point.descriptor, Holder(run_id, os.getpid(), socket.gethostname(), time.time()))
        return Claim((machine, point))

    def _first_here(self) -> Holder | None:
        """Return the other command on this machine whose point has run for longest."""
        holders = filter(None, map(_holder, self._root.glob(f"{_CLAIM}*")))
        own = (os.getpid(), socket.gethostname())
        here = [h for h in holders if h.host == own[1] and h.pid != own[0] and is_alive(h.pid)]
        return min(here, key=lambda holder: holder.since_s, default=None)


@dataclass(frozen=True, slots=True)
class _Lock:
    """Locked file. The locks of two file descriptors exclude each other, even in one process."""

    path: Path
    descriptor: int

    def release(self) -> None:
        """Unlock the file; the last holder removes it."""
        with contextlib.suppress(OSError):  # shared with others, or nothing can be removed here
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.is_in_place():
                self.path.unlink()
        os.close(self.descriptor)

    def is_in_place(self) -> bool:
        """Return whether the path still names the file that is open."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), self.path.stat())
        except FileNotFoundError:
            return False


def _lock(path: Path, how: int) -> _Lock | None:
    """Lock a file, which is created if missing; return None if another process has locked it."""
    while True:
        lock = _Lock(path, os.open(path, os.O_RDWR | os.O_CREAT, 0o666))
        is_held = False
        try:
            fcntl.flock(lock.descriptor, how | fcntl.LOCK_NB)
            # Its last holder may have removed the file since it was opened. Then others would
            # lock the next file of this name, so this lock would exclude nothing.
            is_held = lock.is_in_place()
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.ESTALE:  # on NFS: another host has removed the file
                raise
        finally:
            if not is_held:
                os.close(lock.descriptor)
        if is_held:
            return lock


def _write(descriptor: int, holder: Holder) -> None:
    """Write the holder into the file. Only messages need it, so a full disk is no error here."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)


def _holder(path: Path) -> Holder | None:
    try:
        return Holder(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None

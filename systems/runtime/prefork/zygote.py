"""The fork server: a process that has imported the training library and forks workers on request.

The fork server must stay safe to fork from, so it has no thread, no store and no process group. It
imports what it is told and checks that no thread is left behind. Then it only waits for requests on
its socket (JSON lines), and for the ends of its children.

Requests: ``{"kind": "start", "id", "entry", "argv", "env", "cores", "log"}``, ``{"kind": "signal",
"id", "signum"}``, ``{"kind": "ping"}``; for spares (``spare``) ``{"kind": "spare", "id", "entry",
"argv", "env", "cores"}`` and ``{"kind": "use", "spare"}`` with all fields of ``start``.

Answers: ``ready``, ``failed`` (the imports), ``started`` with an id and its process id, ``refused``
with an id and the system's reason, ``spare_ready`` with an id. ``exited`` with an id and a return
code follows once everything that the process has started has ended too. Every request is also
answered with ``taken``, which tells the launcher that the fork server still runs. All processes end
when the socket is closed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from harness.machine.failures import is_of_machine
from harness.machine.parent_death import adopt_orphans, die_with_parent
from systems.runtime.prefork.lines import Line, encode_line, line_buffer
from systems.runtime.prefork.spare import BEGUN, READY, prepare_and_wait
from systems.runtime.wire.control import LineBuffer
from systems.runtime.wire.process import call_entry, children, num_threads, pin


def main() -> int:
    """Run the fork server; arguments: ``PARENT DESCRIPTOR MODULE...`` (launcher's id, socket,
    imports)."""
    parent, descriptor, *modules = sys.argv[1:]
    # First: nothing may keep this process alive when the launcher is killed during the imports.
    die_with_parent(int(parent))
    adopt_orphans()
    sock = socket.socket(fileno=int(descriptor))
    sock.set_inheritable(False)
    problem = _import(modules)
    if problem is not None:
        sock.sendall(encode_line({"kind": "failed", "reason": problem}))
        return 1
    # First: what is frozen is never collected.
    gc.collect()
    gc.freeze()  # or the collector would touch, and so copy, shared pages
    sock.sendall(encode_line({"kind": "ready"}))
    _Zygote(sock).run()
    return 0


def _import(modules: Sequence[str]) -> str | None:
    """Import modules; return the problem, or None."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            return (
                f"cannot import {module!r} ({type(error).__name__}: {error});"
                " correct the launcher's preimport list"
            )
    threads = num_threads()
    if threads > 1:
        names = ", ".join(thread.name for thread in threading.enumerate()[1:]) or "not Python's"
        return (
            f"importing {', '.join(modules)} left {threads - 1} threads running ({names});"
            " forking is not safe while threads run: take the module that starts them out of the"
            " launcher's preimport list"
        )
    return None


@dataclass(slots=True)
class _Child:
    """Fork, as its parent sees it."""

    number: int
    """Id of the fork; a spare's changes when it is used."""
    socket: socket.socket | None = None
    """Connection to a spare that has not begun its work yet."""
    work: Line | None = None
    """Work given to a spare, until it reports that it has begun."""


@dataclass(slots=True)
class _End:
    """End of a fork whose own processes are being killed."""

    number: int
    returncode: int
    orphans: set[int]
    """Process ids of its own processes that have not ended yet."""


class _Zygote:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}
        """Children by process id."""
        self._ends: list[_End] = []
        """Ends that are not reported yet."""
        self._wake_read, self._wake_write = socket.socketpair()

    def run(self) -> None:
        """Serve until the launcher closes its end of the socket."""
        for end in (self._wake_read, self._wake_write):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        # A handler of Python's is needed: without one a signal writes nothing to the descriptor.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides when to end
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        try:
            self._serve(line_buffer())
        except OSError:
            pass  # the launcher closed the socket with messages unread
        finally:
            self._end()

    def _serve(self, buffer: LineBuffer[Line]) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._listen(key.data)
                    continue
                if key.fileobj is self._wake_read:
                    with contextlib.suppress(BlockingIOError):
                        self._wake_read.recv(4096)
                    self._bury()
                    continue
                data = self._socket.recv(1 << 16)
                if not data:
                    return
                for request in buffer.feed(data):
                    self._handle(request)
                    self._say("taken")

    def _handle(self, request: Line) -> None:
        if request["kind"] == "start":
            self._start(request)
        elif request["kind"] == "spare":
            ours, theirs = socket.socketpair()
            child = self._start(request, ours, theirs)
            # Otherwise this process would hold the spare's side, and never see the spare's end.
            theirs.close()
            if child is not None:
                self._selector.register(ours, selectors.EVENT_READ, child)
        elif request["kind"] == "use":
            self._use(request)
        elif request["kind"] == "signal":
            for pid, child in self._children.items():
                if child.number == request["id"]:
                    # It was signalled, so its work must not be given to another process.
                    child.work = None
                    with contextlib.suppress(ProcessLookupError):
                        self._signal(pid, request["signum"])

    def _start(
        self,
        request: Line,
        ours: socket.socket | None = None,
        theirs: socket.socket | None = None,
    ) -> _Child | None:
        """Fork a process, or a spare if given the two ends of a connection; return None if the
        system refuses."""
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # too many processes, or no memory: the other workers go on
            self._say("refused", id=request["id"], reason=f"cannot fork: {error.strerror}")
            return None
        if pid == 0:
            if ours is not None:
                ours.close()
            self._become(request, zygote, theirs)
        child = self._children[pid] = _Child(request["id"], ours)
        self._say("started", id=child.number, pid=pid)
        return child

    def _say(self, kind: str, **details: object) -> None:
        self._socket.sendall(encode_line({"kind": kind, **details}))

    def _use(self, request: Line) -> None:
        """Give a spare its work; if it has died, fork a process for it."""
        for pid, child in self._children.items():
            if child.number == request["spare"] and child.socket is not None:
                try:
                    child.socket.sendall(encode_line(request))
                except OSError:
                    break
                child.number, child.work = request["id"], request
                self._say("started", id=child.number, pid=pid)
                return
        self._start(request)

    def _listen(self, child: _Child) -> None:
        """Read a spare's messages: that it is ready, that it begins, or that its connection has
        ended."""
        if child.socket is None:
            return
        try:
            said = child.socket.recv(2, socket.MSG_DONTWAIT)
        except OSError:  # it ended with its work unread, or its children hold the other end
            said = b""
        if READY in said:
            self._say("spare_ready", id=child.number)
        if BEGUN in said:
            child.work = None
        if BEGUN in said or not said:
            self._selector.unregister(child.socket)
            child.socket.close()
            child.socket = None

    @staticmethod
    def _signal(child: int, signum: int) -> None:
        """Signal a child's process group, or the child itself if it has not made its group yet."""
        try:
            os.killpg(child, signum)
        except ProcessLookupError:
            os.kill(child, signum)

    def _bury(self) -> None:
        """Reap children that have ended, and kill the processes that they have started.

        A child's group is killed while the child is still a zombie: until then no other process can
        get its number. Processes that have left the group have become children of this process.
        """
        while (pid := _ended_child()) is not None:
            if pid in self._children:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            orphans = self._orphans(pid)
            _, status = os.waitpid(pid, 0)
            for orphan in orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(orphan, signal.SIGKILL)
            for end in self._ends:
                if pid in end.orphans:
                    end.orphans.discard(pid)
                    end.orphans |= orphans  # these were the ended process's children
            child = self._children.pop(pid, None)
            if child is not None:
                self._take_leave(child, os.waitstatus_to_exitcode(status), orphans)
        # Report an end last, since its slot is then free: a process that is still dying would use
        # the cores and the memory of the next worker there.
        for end in [end for end in self._ends if not end.orphans]:
            self._ends.remove(end)
            self._say("exited", id=end.number, returncode=end.returncode)

    def _take_leave(self, child: _Child, code: int, orphans: set[int]) -> None:
        """Record a child's end, or fork a process for its work if it could not begin."""
        while child.socket is not None:  # its last messages
            self._listen(child)
        if child.work is not None:  # it died before it could begin
            self._start(child.work)
        else:
            self._ends.append(_End(child.number, code, orphans))

    def _orphans(self, ended: int) -> set[int]:
        """Return the process ids of adopted children that no end waits for yet.

        Children of another fork that has ended are left out: the end of that fork will wait for
        them.
        """
        found = set(children()) - set(self._children) - {ended}
        for end in self._ends:
            found -= end.orphans
        others = set(self._children) - {ended}
        return {pid for pid in found if _group(pid) not in others}

    def _end(self) -> None:
        """Kill all children and their processes; wait until all have ended."""
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                self._signal(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                ended, _ = os.waitpid(-1, 0)
                self._children.pop(ended, None)
                # An end may leave processes behind, which become children of this one.
                for orphan in set(children()) - set(self._children):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(orphan, signal.SIGKILL)

    def _become(self, request: Line, zygote: int, sock: socket.socket | None) -> NoReturn:
        """Run in the child: drop what belongs to the fork server, set up the surroundings, and
        work."""
        code = 1
        try:
            # In this order: a group of its own first, so that a signal to it reaches all that it
            # starts; then its end with the fork server, before anything that takes time.
            os.setsid()
            die_with_parent(zygote)
            adopt_orphans()
            # The descriptor is shared with the fork server, which this process's signals would
            # wake.
            signal.set_wakeup_fd(-1)
            for signum in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(signum, signal.SIG_DFL)
            self._selector.close()
            # Connections of other forks: held here, too, they would hide the end of the fork
            # server.
            spares = [child.socket for child in self._children.values() if child.socket]
            for end in (self._socket, self._wake_read, self._wake_write, *spares):
                end.close()
            if sock is not None:
                request = prepare_and_wait(request, sock)
            # Only now: a spare that waits ignores Ctrl-C, as the fork server does.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            log = _open_log(request["log"])
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(log)
            os.environ.update(request["env"])
            pin(request["cores"])
            code = call_entry(request["entry"], request["argv"])
        except SystemExit as end:  # a spare that is not needed, or could not be prepared
            code = end.code if isinstance(end.code, int) else 1
        except BaseException as error:
            print(error, file=sys.stderr)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            # Not ``sys.exit``: the stack and the exit handlers below belong to the fork server.
            os._exit(code)


def _open_log(path: str) -> int:
    """Open a log for appending, or the null device if the disk has no room.

    A worker that trains is worth more than its output.
    """
    flags = os.O_WRONLY | os.O_APPEND
    try:
        return os.open(path, flags | os.O_CREAT, 0o644)
    except OSError as error:
        if not is_of_machine(error):
            raise
        return os.open(os.devnull, flags)


def _group(pid: int) -> int | None:
    """Return a process's group; None if the process has ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _ended_child() -> int | None:
    """Return the process id of a child that has ended and was not reaped, or None."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


if __name__ == "__main__":
    sys.exit(main())

"""A process that has imported the training library and forks workers on request.

It must stay safe to fork from: it runs no thread, no store, no process group; it imports
what it is told, checks that this left no thread behind, and then only waits on its socket
for requests (JSON lines) and on the kernel for the ends of its children.

Requests: ``{"kind": "start", "id", "entry", "argv", "env", "cores", "log"}`` and
``{"kind": "signal", "id", "signum"}``. Answers: ``ready``, ``failed`` (the imports),
``exited`` with an id and a return code. When the socket ends, so does everything.
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
from pathlib import Path
from typing import NoReturn

from systems.runtime.control import LineBuffer, Message, encode
from systems.runtime.process import call_entry, die_with_parent, pin


def main() -> int:
    """``PARENT DESCRIPTOR MODULE...``: the launcher's id, our end of its socket, imports."""
    parent, descriptor, *modules = sys.argv[1:]
    die_with_parent(int(parent))
    sock = socket.socket(fileno=int(descriptor))
    sock.set_inheritable(False)
    problem = _import(modules)
    if problem is not None:
        sock.sendall(encode({"kind": "failed", "reason": problem}))
        return 1
    gc.collect()
    gc.freeze()  # keeps the collector from touching, and so copying, what is shared
    sock.sendall(encode({"kind": "ready"}))
    _Zygote(sock).run()
    return 0


def _import(modules: Sequence[str]) -> str | None:
    """Import modules; what is wrong, or None."""
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
            " forking beside threads is not safe: take the module that starts them out of the"
            " launcher's preimport list"
        )
    return None


def num_threads() -> int:
    """Threads of this process, also those that Python does not know of."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


class _Zygote:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._children: dict[int, int] = {}
        """Id by process id."""
        self._wake_read, self._wake_write = socket.socketpair()

    def run(self) -> None:
        """Until the launcher's end of the socket is closed."""
        for end in (self._wake_read, self._wake_write):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides when to end
        selector = selectors.DefaultSelector()
        selector.register(self._socket, selectors.EVENT_READ)
        selector.register(self._wake_read, selectors.EVENT_READ)
        buffer = LineBuffer()
        try:
            self._serve(selector, buffer)
        except OSError:
            pass  # the launcher hung up, with words of ours unread
        finally:
            self._end()

    def _serve(self, selector: selectors.BaseSelector, buffer: LineBuffer) -> None:
        while True:
            for key, _ in selector.select():
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

    def _handle(self, request: Message) -> None:
        if request["kind"] == "start":
            zygote = os.getpid()
            child = os.fork()
            if child == 0:
                self._become(request, zygote)
            self._children[child] = request["id"]
            return
        for child, number in self._children.items():
            if number == request["id"]:
                with contextlib.suppress(ProcessLookupError):
                    self._signal(child, request["signum"])

    @staticmethod
    def _signal(child: int, signum: int) -> None:
        """Signal a child's group; itself where it has not made its group yet."""
        try:
            os.killpg(child, signum)
        except ProcessLookupError:
            os.kill(child, signum)

    def _bury(self) -> None:
        while self._children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            number = self._children.pop(child)
            self._socket.sendall(encode({"kind": "exited", "id": number, "returncode": code}))

    def _end(self) -> None:
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                self._signal(child, signal.SIGKILL)
        for child in self._children:
            os.waitpid(child, 0)

    def _become(self, request: Message, zygote: int) -> NoReturn:
        """In the child: forget the zygote, take on the request's surroundings, and work."""
        code = 1
        try:
            os.setsid()
            die_with_parent(zygote)
            signal.set_wakeup_fd(-1)
            for signum in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(signum, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for end in (self._socket, self._wake_read, self._wake_write):
                end.close()
            log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(log)
            os.environ.update(request["env"])
            pin(request["cores"])
            code = call_entry(request["entry"], request["argv"])
        except BaseException as error:
            print(error, file=sys.stderr)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)


if __name__ == "__main__":
    sys.exit(main())

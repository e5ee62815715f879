"""The local launcher's end of a pre-importing process (``systems.runtime.zygote``)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial

from harness.contracts.launcher import ProcessSpec, Spares, SpareSpec
from systems.launchers.exits import describe_code
from systems.launchers.spare_pool import SparePool
from systems.runtime.control import LineBuffer, Message, encode

CLOSE_TIMEOUT_S = 10.0
CODE_NEVER_RAN = 1
_SINGLE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Thread pools that libraries start when they are imported would forbid forking."""


class Preimported:
    """Asks for forks, and is told of their ends. Requests may precede the end of the imports.

    Ids of forks are the launcher's handles; those of spares count from -1 down.
    """

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the pre-importing process; does not wait for its imports."""
        self._socket, theirs = socket.socketpair()
        self._buffer = LineBuffer()
        self._live: set[int] = set()
        self._ends: list[tuple[int, int, str]] = []
        self._spares = SparePool()
        self._failure: str | None = None
        self._is_ready = False
        """It has imported all modules."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)
        self._printed_bytes = 0
        """Its size when the last spare was asked for; they are made one after the other."""
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-u", "-m", "systems.runtime.zygote"),
                    *(str(os.getpid()), str(theirs.fileno()), *modules),
                ],
                env={**os.environ, **environment, **_SINGLE},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def start(self, handle: int, spec: ProcessSpec) -> None:
        """Ask for a fork, or give a spare its work if the specification wants one."""
        self._live.add(handle)
        request = {
            "kind": "start",
            "id": handle,
            "entry": spec.entry,
            "argv": list(spec.argv),
            "env": {**spec.env, **spec.own_env},
            "cores": list(spec.cores),
            "log": str(spec.log_path.absolute()),
        }
        if spec.warmth.is_kept:
            self._listen()
            spare = self._spares.take(spec)
            if spare is not None:
                request |= {"kind": "use", "spare": spare}
        self._send(request)

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """Have a fork signalled, if it still lives."""
        if handle in self._live:
            self._send({"kind": "signal", "id": handle, "signum": int(signum)})

    def ended(self) -> list[tuple[int, int, str]]:
        """Handle, return code and, where the log cannot say it, the reason of every end."""
        self._listen()
        self._prepare()
        found, self._ends = self._ends, []
        return found

    def keep(self, spares: Sequence[SpareSpec]) -> None:
        """As ``Launcher.keep``."""
        for spare in self._spares.want(spares):
            self._send({"kind": "signal", "id": spare, "signum": int(signal.SIGKILL)})
        self._prepare()

    def spares(self) -> Spares:
        """As ``Launcher.spares``."""
        return self._spares.standing()

    def _prepare(self) -> None:
        """Have the next spare made, if one is missing and no other is being prepared."""
        if (order := self._spares.next()) is not None:
            number, spec = order
            self._printed_bytes = os.fstat(self._log.fileno()).st_size
            self._send(
                {
                    "kind": "spare",
                    "id": number,
                    "entry": spec.prepare,
                    "argv": list(spec.argv),
                    "env": dict(spec.env),
                    "cores": list(spec.cores),
                }
            )

    def _listen(self) -> None:
        """Take all that the process has said."""
        while True:
            try:
                data = self._socket.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                break
            for message in self._buffer.feed(data):
                self._heard(message)
        reason = self._failure or f"the pre-importing process has died: {self._last_words()}"
        self._ends += [(handle, CODE_NEVER_RAN, reason) for handle in sorted(self._live)]
        self._live.clear()
        self._spares.give_up(reason)

    def _heard(self, message: Message) -> None:
        if message["kind"] == "ready":
            self._is_ready = True
        elif message["kind"] == "spare_ready":
            self._spares.ready(message["id"])
        elif message["kind"] == "failed":
            self._failure = message["reason"]
        elif message["kind"] == "exited" and message["id"] < 0:
            self._spares.ended(message["id"], partial(self._how_spare_ended, message["returncode"]))
        elif message["kind"] == "exited":
            self._live.discard(message["id"])
            self._ends.append((message["id"], message["returncode"], ""))

    def close(self) -> None:
        """End the process and with it all its forks; waits for them."""
        self._listen()
        if not self._is_ready:  # importing, perhaps for seconds: it does not look at its socket
            self._process.kill()
        self._socket.close()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # its forks then die with it
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _send(self, request: Mapping[str, object]) -> None:
        try:
            self._socket.sendall(encode(request))
        except OSError:
            return  # it has died; ``ended`` will say so for every process it had

    def _last_words(self) -> str:
        return f"exit code {self._process.poll()}; {self._last_line()}"

    def _how_spare_ended(self, code: int) -> str:
        """For a person; who is killed has no last words."""
        said = f": {self._last_line(self._printed_bytes)}" if code > 0 else ""
        return describe_code(code) + said

    def _last_line(self, since_bytes: int = 0) -> str:
        """Of what it and its spares have printed (``pread``: they share the file's position)."""
        size = os.fstat(self._log.fileno()).st_size - since_bytes
        said = os.pread(self._log.fileno(), size, since_bytes)
        lines = said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

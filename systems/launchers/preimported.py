"""The local launcher's side of a fork server (``systems.runtime.prefork.zygote``).

The fork server can die or stop like any process, so no call here waits for it. Bytes that its
socket has no room for are kept. If it leaves a request unanswered for too long, it is killed. The
kernel then kills its forks too, as they asked it to. The next request starts another one.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

import psutil

from harness.contracts.process import Exit, ProcessSpec, Spares, SpareSpec
from systems.launchers.exits import describe_code
from systems.launchers.spare_pool import SparePool
from systems.runtime.prefork.lines import Line, encode_line, line_buffer

CLOSE_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 10.0
"""Longest silence of the fork server while a request is unanswered. A fork takes milliseconds; the
rest is for a machine that swaps, since a mistaken kill ends all workers."""
PING_EVERY_S = 20.0
"""Longest silence while forks live. A stopped fork server cannot report their ends, and the next
request may be hours away."""
IMPORT_TIMEOUT_S = 300.0
"""Longest silence during the imports, when it reads no request. A slow disk needs minutes."""
STOPPED_TIMEOUT_S = 10.0
"""Longest time for which it may be stopped (SIGSTOP) during the imports. The system tells a stopped
process from a slow one, so the bound need not allow for slow disks."""
MOST_PASSED_S = 1.0
"""Longest part of a silence that one look counts. If the whole machine or only this process stood
still, the fork server had no time to answer either."""
CODE_NEVER_RAN = 1
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
_SINGLE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Settings against thread pools that libraries would start on import: threads forbid forking."""


class Preimported:
    """Client of the fork server: requests forks and receives their ends.

    Requests may precede the end of the imports. Ids of forks are the launcher's handles; those of
    spares count from -1 down.
    """

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the fork server; do not wait for its imports.

        Raises:
            OSError: the system cannot start a process.
        """
        self._modules = tuple(modules)
        self._environment = environment
        self._live: set[int] = set()
        self._pids: dict[int, int] = {}
        """Process ids of forks and spares, by their ids."""
        self._ends: list[Exit] = []
        self._spares = SparePool()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)
        self._printed_bytes = 0
        """Size of the log when the last spare was requested; spares are made one after the
        other."""
        self._begin()

    def _begin(self) -> None:
        """Start the fork server, or another one after the last has died."""
        self._is_over = True  # holds if it cannot be started
        self._buffer = line_buffer()
        self._failure: str | None = None
        self._is_ready = False
        """True once it has imported all modules."""
        self._outgoing = b""
        """Bytes that its socket has had no room for yet."""
        self._num_unanswered = 0
        self._silent_s = 0.0
        """Seconds for which it has sent nothing, or has left a request unanswered."""
        self._stopped_s = 0.0
        """Seconds for which it has been stopped without a break, at every look."""
        self._looked_at = time.monotonic()
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        # Closed here: the socket ends with the fork server only if no other process holds its side.
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-u", "-m", "systems.runtime.prefork.zygote"),
                    *(str(os.getpid()), str(theirs.fileno()), *self._modules),
                ],
                env={**os.environ, **self._environment, **_SINGLE},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                # The terminal's Ctrl-C must not reach it: the launcher decides when it ends.
                start_new_session=True,
            )
        self._is_over = False

    def start(self, handle: int, spec: ProcessSpec) -> None:
        """Request a fork, or give a spare its work if the specification asks for one.

        Raises:
            OSError: the fork server has died, and the system cannot start another one.
        """
        request = {
            "kind": "start",
            "id": handle,
            "entry": spec.entry,
            "argv": list(spec.argv),
            "env": {**spec.env, **spec.own_env},
            "cores": list(spec.cores),
            "log": str(spec.log_path.absolute()),
        }
        # First: a spare that has ended in the meantime must not be used.
        self._listen()
        if spec.warmth.is_kept:
            spare = self._spares.take(spec)
            if spare is not None:
                request |= {"kind": "use", "spare": spare}
                self._pids.pop(spare, None)
        self._send(request)
        self._live.add(handle)

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """Request a signal to a fork, if it still lives."""
        if handle in self._live:
            self._send({"kind": "signal", "id": handle, "signum": int(signum)})

    def ended(self) -> list[Exit]:
        """Return every new end; its reason is empty if the log tells it."""
        # First: an answer that has arrived ends the silence that is judged next.
        self._listen()
        self._judge()
        self._prepare()
        found, self._ends = self._ends, []
        return found

    def keep(self, spares: Sequence[SpareSpec]) -> None:
        """Keep spares as ``Launcher.keep`` describes."""
        for spare in self._spares.want(spares):
            self._send({"kind": "signal", "id": spare, "signum": int(signal.SIGKILL)})
        self._prepare()

    def spares(self) -> Spares:
        """Return the state of the spares as ``Launcher.spares`` describes."""
        return self._spares.standing()

    def _prepare(self) -> None:
        """Request the next spare, if one is missing and no other is being prepared."""
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
        """Read all that the fork server has sent, and send what it had no room for."""
        if self._is_over:
            return
        self._flush()
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                break
            self._silent_s = 0.0
            for message in self._buffer.feed(data):
                self._heard(message)
        self._process.kill()  # its end of the socket is closed: it has died, or will soon
        self._wait()
        self._lost(self._failure or f"the pre-importing process has died: {self._last_words()}")

    def _judge(self) -> None:
        """Kill the fork server if it has left a request unanswered for too long."""
        now = time.monotonic()
        passed_s, self._looked_at = now - self._looked_at, now
        if self._is_over:
            return
        passed_s = min(passed_s, MOST_PASSED_S)
        self._silent_s += passed_s
        if not self._is_ready and self._is_stopped():
            self._stopped_s += passed_s
        else:
            self._stopped_s = 0.0
        if not self._num_unanswered:
            if self._live and self._silent_s > PING_EVERY_S:
                self._send({"kind": "ping"})
            return
        limit_s = ANSWER_TIMEOUT_S if self._is_ready else IMPORT_TIMEOUT_S
        if self._silent_s > limit_s:
            self._give_up(f"did not answer for {limit_s:g} s")
        elif self._stopped_s > STOPPED_TIMEOUT_S:
            self._give_up(f"was stopped for {STOPPED_TIMEOUT_S:g} s during its imports")

    def _is_stopped(self) -> bool:
        with suppress(psutil.Error):
            return psutil.Process(self._process.pid).status() in _STOPPED
        return False

    def _give_up(self, why: str) -> None:
        self._process.kill()
        self._wait()
        self._lost(f"the pre-importing process {why} and was killed")

    def _lost(self, reason: str) -> None:
        """Handle the death of the fork server: all its forks have ended.

        The next request starts another one.
        """
        self._is_over = True
        self._socket.close()
        # The kernel has killed the forks, but not the processes that they started, which are in
        # their groups. A group's number is not reused while it has a member, nor so soon
        # afterwards.
        for pid in self._pids.values():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self._ends += [
            Exit(handle, CODE_NEVER_RAN, reason, of_machine=True) for handle in sorted(self._live)
        ]
        if self._failure is None:
            print(
                f"warning: {reason}; the {len(self._live)} processes forked from it have ended,"
                " and another one is started when it is needed",
                file=sys.stderr,
            )
        self._live.clear()
        self._pids.clear()
        self._spares.lost(reason)

    def _heard(self, message: Line) -> None:
        kind, number = message["kind"], message.get("id", 0)
        if kind == "taken":
            self._num_unanswered -= 1
        elif kind == "started":
            self._pids[number] = message["pid"]
        elif kind == "ready":
            self._is_ready = True
        elif kind == "spare_ready":
            self._spares.ready(number)
        elif kind == "failed":
            self._failure = message["reason"]
        elif number < 0:  # the end of a spare
            self._pids.pop(number, None)
            said = message.get("reason")
            code = message.get("returncode", CODE_NEVER_RAN)
            how = partial(self._how_spare_ended, code) if said is None else partial(str, said)
            self._spares.ended(number, how)
        else:
            self._pids.pop(number, None)
            self._live.discard(number)
            is_refused = kind == "refused"
            code = CODE_NEVER_RAN if is_refused else message["returncode"]
            reason = message["reason"] if is_refused else ""
            self._ends.append(Exit(number, code, reason, of_machine=is_refused))

    def close(self) -> None:
        """End the fork server and with it all its forks; wait for them."""
        self._listen()
        if not self._is_over:
            # It would not see the end of its socket while it imports, or if it has stopped.
            if not self._is_ready or self._num_unanswered:
                self._process.kill()
            self._socket.close()
            self._is_over = True
            if not self._wait():  # its forks die with it
                self._process.kill()
                self._wait()
        self._log.close()

    def _wait(self) -> bool:
        """Wait for the end of the fork server; return whether it has ended.

        The wait is bounded: a process that waits for a disk dies only when the disk answers.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT_S)
        return self._process.returncode is not None

    def _send(self, request: Mapping[str, object]) -> None:
        """Send a request; start another fork server if the last has died. Do not wait.

        Raises:
            OSError: another one cannot be started.
        """
        if self._is_over:
            self._begin()
        if not self._num_unanswered:
            # The silence that is judged begins with the first request without an answer.
            self._silent_s = 0.0
        self._num_unanswered += 1
        self._outgoing += encode_line(request)
        self._flush()

    def _flush(self) -> None:
        """Send what the socket has room for; the rest follows at the next look."""
        try:
            while self._outgoing:
                sent = self._socket.send(self._outgoing)
                self._outgoing = self._outgoing[sent:]
        except BlockingIOError:
            return
        except OSError:
            self._outgoing = b""  # it has died; ``ended`` reports that for each of its processes

    def _last_words(self) -> str:
        code = self._process.returncode
        return f"{'it runs' if code is None else describe_code(code)}; {self._last_line()}"

    def _how_spare_ended(self, code: int) -> str:
        """Return a text for a spare's end; after a kill it has no last line."""
        said = f": {self._last_line(self._printed_bytes)}" if code > 0 else ""
        return describe_code(code) + said

    def _last_line(self, since_bytes: int = 0) -> str:
        """Return the last line that the fork server and its spares have printed.

        ``pread`` is needed because they share the file's position.
        """
        size = os.fstat(self._log.fileno()).st_size - since_bytes
        said = os.pread(self._log.fileno(), size, since_bytes)
        lines = said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

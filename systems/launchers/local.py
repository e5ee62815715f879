"""Local launcher: worker processes on this machine, fresh or forked from a fork server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.contracts.process import Exit, HostEvent, ProcessSpec, Spares, SpareSpec, Warmth
from harness.errors import RunError
from systems.launchers.exits import Kills, describe_exit
from systems.launchers.preimported import Preimported

CLOSE_TIMEOUT_S = 10.0
PREIMPORT = (
    "torch",
    "torch._dynamo",
    "torch.nn.parallel",
    "systems.restart.training_loop",
    "systems.elastic.worker.loop",
)
SPARE_BYTES = 30_000_000
"""Memory that only a prepared spare has; it shares the rest with the process it was forked from.
The value holds for torch 2.13 on a CPU, without the memory of an accelerator's driver;
tests/backends/test_spares.py checks it."""
GROUP_TIMEOUT_S = 1.0
"""Longest time between a fresh process's end and its report, while its group is killed. The wait is
bounded because a group also counts zombies that no process reaps, as in a container whose first
process ignores orphans."""
GROUP_LOOK_S = 0.005
"""Time between two looks at the groups while the launcher closes."""


class LauncherError(RunError):
    """A process cannot be started; the text gives the reason and a remedy."""


class Local:
    """Launcher of processes on this machine, each in its own process group.

    The kernel kills (SIGKILL) a process when the thread that called ``start`` ends, so no process
    survives the driver. Call ``start`` from the main thread.
    """

    def __init__(self, preimport: Sequence[str] = PREIMPORT, spares: int = 1) -> None:
        """Store the settings; no process is started yet.

        Args:
            preimport: modules that the fork server imports. It starts with the first pre-imported
                process, and never if none is requested.
            spares: number of processes kept ready for each slot, if any are requested.

        Raises:
            ValueError: the number of spares is below 1.
        """
        if spares < 1:
            raise ValueError(
                f"spares is {spares}; it must be >= 1 (backend.start=preimported keeps none)"
            )
        self._preimport = tuple(preimport)
        self._spares_per_slot = spares
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._kills = Kills()
        self._ends: list[_End] = []
        """Ends of fresh processes that are not reported yet."""
        self._logs: dict[int, Path] = {}
        self._next_handle = 1
        self._zygote: Preimported | None = None
        self._hosts: dict[str, bool] = {}

    def open(self, preimport: Sequence[str] = ()) -> None:
        """Add the modules of the run's workloads to those that the fork server imports."""
        self._preimport += tuple(name for name in preimport if name not in self._preimport)

    def start(self, spec: ProcessSpec) -> int:
        """Start a process; do not wait until it runs.

        Raises:
            LauncherError: the host is another machine.
            OSError: the system cannot start a process, or its log cannot be written.
        """
        self._check_host(spec.host)
        handle = self._next_handle
        self._next_handle += 1
        if str(spec.log_path) != os.devnull:
            spec.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._logs[handle] = spec.log_path
        if spec.warmth is not Warmth.COLD:
            self._forker().start(handle, spec)
            return handle
        cores = ",".join(map(str, spec.cores))
        with spec.log_path.open("ab") as log:
            self._processes[handle] = subprocess.Popen(
                [
                    *(sys.executable, "-u", "-m", "systems.runtime.wire.process"),
                    *(str(os.getpid()), cores, spec.entry, *spec.argv),
                ],
                env={**os.environ, **_module_path(), **spec.env, **spec.own_env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A group of its own: signals reach what it starts, and the terminal's Ctrl-C does
                # not reach it.
                start_new_session=True,
            )
        return handle

    def signal(self, handle: int, signum: signal.Signals) -> None:
        """Signal a process and those that it has started; do nothing if it has ended."""
        if handle in self._logs:
            self._kills.note(handle, signum)
        process = self._processes.get(handle)
        if process is not None:
            # Only before it is reaped: afterwards another group may have its number.
            if process.poll() is None:
                os.killpg(process.pid, signum)
        elif self._zygote is not None and handle in self._logs:
            self._zygote.signal(handle, signum)

    def ended(self) -> list[Exit]:
        """Return the processes that have ended since the last call."""
        for handle, process in list(self._processes.items()):
            code = process.poll()
            if code is not None:
                del self._processes[handle]
                told = describe_exit(code, self._logs.pop(handle))
                from_outside = self._kills.is_from_outside(handle, code)
                end = Exit(handle, code, told, is_kill_from_outside=from_outside)
                self._ends.append(_End(end, process.pid, time.monotonic() + GROUP_TIMEOUT_S))
        # Report an end only once the whole group is gone, since its slot is then free. A process
        # that is still dying would use the cores and the memory of the next worker there.
        over = [end for end in self._ends if end.group_is_gone() or time.monotonic() > end.told_at]
        self._ends = [end for end in self._ends if end not in over]
        found = [end.exit for end in over]
        if self._zygote is not None:
            for end in self._zygote.ended():
                log = self._logs.pop(end.handle)
                from_outside = self._kills.is_from_outside(end.handle, end.returncode)
                told = end.reason or describe_exit(end.returncode, log)
                found.append(replace(end, reason=told, is_kill_from_outside=from_outside))
        return found

    def keep(self, spares: Sequence[SpareSpec]) -> None:
        """Keep the chosen number of processes ready for each of these; do not wait for them.

        Raises:
            LauncherError: a host is another machine.
        """
        for spare in spares:
            self._check_host(spare.host)
        if spares or self._zygote is not None:
            self._forker().keep([spare for spare in spares for _ in range(self._spares_per_slot)])

    def spares(self) -> Spares:
        """Return the state of the spares as of the last ``ended``."""
        return self._zygote.spares() if self._zygote is not None else Spares()

    def spares_bytes(self, num_slots: int, built_bytes: int = 0) -> int:
        """Return the estimated memory of the spares of ``num_slots`` slots.

        ``built_bytes`` is the memory of what each standby has built.
        """
        return num_slots * self._spares_per_slot * (SPARE_BYTES + built_bytes)

    def host_events(self) -> list[HostEvent]:
        """Return nothing: this machine is not lost while the launcher runs."""
        return []

    def close(self) -> None:
        """Kill all processes and wait for their ends."""
        for handle in self._processes:
            self.signal(handle, signal.SIGKILL)
        # The wait is bounded: a process may wait for a disk that does not answer.
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        while (self._processes or self._ends) and time.monotonic() < deadline:
            self.ended()
            time.sleep(GROUP_LOOK_S)
        self._processes.clear()
        self._ends.clear()
        if self._zygote is not None:
            # Its forks end with it, so that they need no signal of their own.
            self._zygote.close()
            self._zygote = None
        self._logs.clear()

    def _forker(self) -> Preimported:
        """Return the fork server; start it if necessary."""
        if self._zygote is None:
            self._zygote = Preimported(self._preimport, _module_path())
        return self._zygote

    def _check_host(self, host: str) -> None:
        if not self._is_here(host):
            raise LauncherError(
                f"host {host!r} is not this machine and launcher=local starts processes"
                " only here; choose a cluster of one machine, or a launcher for several"
            )

    def _is_here(self, host: str) -> bool:
        """Return whether an address is this machine's, which a bind shows."""
        if host not in self._hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                with socket.socket(family, socket.SOCK_STREAM) as probe:
                    probe.bind((host, 0))
                self._hosts[host] = True
            except OSError:
                self._hosts[host] = False
        return self._hosts[host]


@dataclass(frozen=True, slots=True)
class _End:
    """End of a fresh process, and the latest time of its report."""

    exit: Exit
    group: int
    told_at: float

    def group_is_gone(self) -> bool:
        """Kill what the process has started; return whether its group is gone."""
        try:
            os.killpg(self.group, signal.SIGKILL)
        except ProcessLookupError:
            return True
        return False


def _module_path() -> dict[str, str]:
    """Return the environment in which a new interpreter finds this one's modules."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

"""First actions of a started process: die with its parent, stay on its cores.

Both kinds of workers use it: a fresh interpreter (``python -m systems.runtime.wire.process``) and a
fork of the fork server (``prefork.zygote``).
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

from harness.machine.parent_death import die_with_parent


def children() -> list[int]:
    """Return the process ids of this process's children; call it from the main thread.

    The list is empty if the kernel does not list them.
    """
    path = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return [int(pid) for pid in path.read_text().split()] if path.is_file() else []


def pin(cores: Sequence[int]) -> None:
    """Pin this process to these cores; keep all cores if none is given.

    Raises:
        ValueError: this machine has no such cores.
    """
    if not cores or not hasattr(os, "sched_setaffinity"):
        return
    try:
        os.sched_setaffinity(0, cores)
    except OSError:
        usable = sorted(os.sched_getaffinity(0))
        raise ValueError(
            f"cannot pin a worker to cores {list(cores)}: this process may use {usable};"
            " choose a cluster whose slots name those"
        ) from None


def num_threads() -> int:
    """Return the number of threads of this process, including those unknown to Python."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


def call_entry(entry: str, argv: Sequence[str]) -> int:
    """Call ``package.module:function`` with ``argv``; return the exit code.

    An exception is printed to standard error, as the interpreter would.
    """
    try:
        module_name, _, function = entry.partition(":")
        code = getattr(importlib.import_module(module_name), function)(list(argv))
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def main() -> int:
    """Run an entry with the arguments ``PARENT CORES ENTRY ARG...``; CORES is separated by commas,
    or empty."""
    parent, cores, entry, *argv = sys.argv[1:]
    die_with_parent(int(parent))
    try:
        pin([int(core) for core in cores.split(",") if core])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return call_entry(entry, argv)


if __name__ == "__main__":
    sys.exit(main())

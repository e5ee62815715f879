"""The process of one worker of the script. Only it imports torch, which takes seconds."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import threading


def work(options: argparse.Namespace, rank: int, store: str) -> None:
    """Run the process of worker ``rank``; the first one writes the lines of ``--out``."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if options.cores:
        os.sched_setaffinity(0, [options.cores[rank]])
    from .training import train

    lines = train(options, rank, store)
    if rank == 0:
        partial = options.out.with_name(options.out.name + ".partial")
        partial.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        partial.replace(options.out)
    os._exit(0)  # nothing is left to do, and shutting down torch's threads can fail


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)

"""Command ``python -m harness.bench.bandwidth``: speed of this machine's copies of bytes."""

from __future__ import annotations

import argparse
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from harness.files.atomic_json import write_json
from harness.machine.interrupts import run_command
from harness.machine.manifest import environment, hardware_slug, machine_load

NAME, RECORD = "bandwidth", "record.json"
_PIECE = 1 << 20


def copy_in_memory(num_bytes: int) -> float:
    """Return the seconds to copy ``num_bytes`` between two arrays that are in memory already."""
    source, target = np.ones(num_bytes, np.uint8), np.zeros(num_bytes, np.uint8)
    began = time.perf_counter()
    np.copyto(target, source)
    return time.perf_counter() - began


def copy_through_loopback(num_bytes: int) -> float:
    """Return the seconds to send ``num_bytes`` through a TCP connection of this host to itself."""
    source, target = np.ones(num_bytes, np.uint8), np.zeros(num_bytes, np.uint8)
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
    with sender, receiver:
        thread = threading.Thread(target=sender.sendall, args=(source.data,))
        began = time.perf_counter()
        thread.start()
        left = memoryview(target.data)
        while left:
            left = left[receiver.recv_into(left, min(len(left), _PIECE)) :]
        took_s = time.perf_counter() - began
        thread.join()
    return took_s


KINDS: dict[str, Callable[[int], float]] = {
    "memory copy": copy_in_memory,
    "loopback socket": copy_through_loopback,
}


def measure(num_bytes: int, trials: int) -> dict[str, Any]:
    """Return bytes per second of every kind of copy: median, least and largest of the trials."""
    found = {}
    for kind, copy in KINDS.items():
        copy(num_bytes)
        speeds = [num_bytes / copy(num_bytes) for _ in range(trials)]
        found[kind] = {"median": median(speeds), "min": min(speeds), "max": max(speeds)}
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the record and print it; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="python -m harness.bench.bandwidth",
        description="How fast this machine copies bytes in memory and through loopback.",
    )
    parser.add_argument("--bytes", type=int, default=1 << 28, metavar="N", help="bytes of one copy")
    parser.add_argument("--trials", type=int, default=9, metavar="N")
    parser.add_argument(
        "--to", type=Path, default=Path("results/reference"), metavar="DIR",
        help=f"the record goes to DIR/HARDWARE/{NAME}/ (default: %(default)s)",
    )  # fmt: skip
    options = parser.parse_args(words)
    if min(options.bytes, options.trials) < 1:
        parser.error("--bytes and --trials must be at least 1")
    about = environment(["python", "-m", "harness.bench.bandwidth", *words])
    load, found = machine_load(), measure(options.bytes, options.trials)
    path = options.to / hardware_slug(about["hardware"]) / NAME / RECORD
    about |= {"name": NAME, "num_bytes": options.bytes, "trials": options.trials}
    write_json(path, about | {"load_before": load, "bytes_per_s": found})
    for kind, speed in found.items():
        print(f"{kind}: {speed['median'] / 1e9:.2f} GB/s ({options.trials} trials)")
    print(f"Record: {path}")
    return 0


if __name__ == "__main__":
    run_command(main)

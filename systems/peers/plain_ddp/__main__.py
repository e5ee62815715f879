"""Plain data-parallel training, as a user would write it: the reference for ``static``.

The program is stand-alone: of this project it imports only the given workload. It does what every
script with stock DistributedDataParallel over gloo does. There is no control channel, no log and no
agreement, and each worker has one thread.

    python -m systems.peers.plain_ddp workloads.toy.Toy --workers 2 --cores 0 1 \\
        --batch 32 --steps 100 --out steps.jsonl

The first worker writes one line for each step, when all have ended: ``step``, ``started``
(``time.monotonic``) and ``duration_s``. With ``--bitwise`` the script also makes bits comparable.
The script then sets all random states before each step (or, with ``--streams``, only before the
first one). It adds the mean loss and every worker's to each line (``loss``, ``losses``, exact
bits), and ends with digests of the state. ``--common-kernels`` is EasyScale's level D2.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from .worker import work

PRELOADED = ("torch._dynamo", "torch.nn.parallel", "numpy", f"{__package__}.training")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m systems.peers.plain_ddp",
        description="Train a workload under stock DistributedDataParallel over gloo.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("workload", help="package.module.Class")
    parser.add_argument("--options", type=json.loads, default={}, help="of the class, as JSON")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument(
        "--forked",
        action="store_true",
        help="fork the workers from a process that has imported torch and the workload: sooner,"
        " with the same bits (without it each is an interpreter of its own)",
    )
    parser.add_argument(
        "--cores", type=int, nargs="*", default=[], help="one for each worker; none: not pinned"
    )
    parser.add_argument("--steps", type=int, default=60, help="steps to train")
    parser.add_argument("--batch", type=int, default=32, help="global batch")
    parser.add_argument("--seed", type=int, default=0, help="of parameters and data order")
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines to write")
    parser.add_argument("--begun", type=Path, help="file to make after the first step")
    parser.add_argument("--bitwise", action="store_true", help="seed each step; losses, digests")
    parser.add_argument("--streams", action="store_true", help="--bitwise: seed step 1 only")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--common-kernels", action="store_true", help="no oneDNN, no NNPACK")
    parser.add_argument("--bare", action="store_true", help="no DistributedDataParallel: alone")
    parser.add_argument(
        "--loaders", type=int, default=0, help="processes of a DataLoader for each worker"
    )
    parser.add_argument(
        "--evidence",
        choices=("none", "digests", "tensors", "operators"),
        default="none",
        help="what to keep of the steps in --evidence-steps, next to --out, for"
        " python -m harness.consistency",
    )
    parser.add_argument("--evidence-steps", type=int, nargs=2, default=[1, 30], help="first, last")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Start the workers and wait for them; return 1 if a worker failed."""
    parser = build_parser()
    options = parser.parse_args(argv)
    if options.cores and len(options.cores) != options.workers:
        parser.error(f"--cores names {len(options.cores)} cores for {options.workers} workers")
    if not 1 <= options.workers <= options.batch:
        parser.error(f"--workers is {options.workers}; use 1 to {options.batch}, the batch")
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            _process(options, (options, rank, f"{folder}/store")) for rank in range(options.workers)
        ]
        for worker in workers:
            worker.start()
        running = list(workers)
        while running:
            multiprocessing.connection.wait([worker.sentinel for worker in running])
            if any(worker.exitcode for worker in running):
                for worker in running:
                    worker.kill()  # they would wait for the failed worker
                return 1
            running = [worker for worker in running if worker.exitcode is None]
    return 0


def _process(options: argparse.Namespace, of_worker: tuple[Any, ...]) -> BaseProcess:
    if not options.forked:
        return multiprocessing.get_context("spawn").Process(target=work, args=of_worker)
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([*PRELOADED, options.workload.rpartition(".")[0]])
    return server.Process(target=work, args=of_worker)


if __name__ == "__main__":
    sys.exit(main())

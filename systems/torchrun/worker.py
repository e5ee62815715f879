"""A worker under TorchElastic, started by an agent; the environment holds its rank."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from systems.restart.main import work
from systems.restart.order import TO_WORKER, WorkerOrder
from systems.runtime.wire.control import TOKEN_VARIABLE, ControlClient
from systems.torchrun.messages import RoundGreeting

END_TIMEOUT_S = 5.0
EXIT_STOPPED = 128 + signal.SIGTERM


class Stopped(BaseException):
    """The agent wants this worker to end; its logs are written while the exception propagates."""


def main(argv: Sequence[str]) -> int:
    """Run a worker; arguments: ``ADDRESS PORT JOB_ID AGENT``, with the token in the environment."""
    address, port, job_id, agent = argv
    signal.signal(signal.SIGTERM, _stop)
    greeting = RoundGreeting(
        job_id=job_id,
        agent=int(agent),
        rank=int(os.environ["RANK"]),
        num_workers=int(os.environ["WORLD_SIZE"]),
        store=f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
        token=os.environ.pop(TOKEN_VARIABLE, ""),
        pid=os.getpid(),
    )
    try:
        work(ControlClient(address, int(port), greeting, TO_WORKER), _train, WorkerOrder)
    except Stopped:
        sys.stdout.flush()
        os._exit(EXIT_STOPPED)


def _train(order: WorkerOrder, client: ControlClient, ordered_at: float) -> None:
    loop = importlib.import_module("systems.restart.training_loop")
    loop.train(order, client, ordered_at, finishing=_stay)


def _stay() -> None:
    """Ignore SIGTERM from now on: an agent that must leave waits a while, and the job ends
    first."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _stop(signum: int, frame: FrameType | None) -> None:
    """Raise ``Stopped`` in the main thread; a second signal has no effect.

    A collective whose peers are gone may delay that for longer than an agent should wait, so a
    timer ends the process.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_anyway, daemon=True).start()
    raise Stopped


def _end_anyway() -> None:
    time.sleep(END_TIMEOUT_S)
    os._exit(EXIT_STOPPED)

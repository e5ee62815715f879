"""A worker process: greet the driver, receive the order, train, exit.

No training library is imported before the order arrives, since the environment must be complete
before such an import.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from harness.errors import ElastraceError
from harness.machine.failures import is_of_machine
from systems.restart.order import TO_WORKER, WorkerOrder
from systems.runtime.wire.control import TOKEN_VARIABLE, ControlClient
from systems.runtime.wire.messages import Failed, RankGreeting
from systems.runtime.wire.protocol import Message, sendable

_NOT_DETERMINISTIC = " does not have a deterministic implementation"
"""Torch's message about an operator, after its name, if ``determinism`` forbids the operator."""


def main(argv: Sequence[str]) -> NoReturn:
    """Run a worker with the arguments ``ADDRESS PORT JOB_ID GENERATION RANK``; its token is in the
    environment."""
    address, port, job_id, generation, rank = argv
    greeting = RankGreeting(
        job_id=job_id,
        generation=int(generation),
        rank=int(rank),
        token=os.environ.pop(TOKEN_VARIABLE, ""),
        pid=os.getpid(),
    )
    client = ControlClient(address, int(port), greeting, TO_WORKER)
    work(client, _train, WorkerOrder)


def _train(order: WorkerOrder, client: ControlClient, ordered_at: float) -> None:
    loop = importlib.import_module("systems.restart.training_loop")
    loop.train(order, client, ordered_at)


def work(
    client: ControlClient,
    train: Callable[[Any, ControlClient, float], None],
    order_class: type[Message],
) -> NoReturn:
    """Wait for the order, train, and end this process; report a failure to the driver.

    Args:
        client: connection to the driver.
        train: called with the order, the connection, and the time at which the order came.
        order_class: class of the order that is awaited.
    """
    try:
        # The driver limits how long a start may take.
        train(client.expect(order_class), client, time.monotonic())
    except Exception as error:
        with suppress(OSError):  # the log may not be writable
            traceback.print_exc()
        client.send(
            Failed(
                reason=sendable(_reason(error)),
                collective=_is_lost(error),
                of_machine=is_of_machine(error),
                is_of_all=getattr(error, "is_of_all", False),
            )
        )
        code = 1
    else:
        code = 0
    client.leave()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    # Leave without the interpreter's shutdown: it takes long with a training library, and
    # everything has been written and sent.
    os._exit(code)


def warm_up(argv: Sequence[str]) -> int:
    """Do nothing; starting a process with this entry makes the launcher do its pre-imports."""
    return 0


def _reason(error: Exception) -> str:
    text = str(error).strip() or "no message"
    if isinstance(error, ElastraceError):
        return text
    if _NOT_DETERMINISTIC in text:
        operator = text.partition(_NOT_DETERMINISTIC)[0]
        return (
            f"operator {operator} has no deterministic kernel for this device and number of"
            " threads, so no bits can be promised; use another operator, or backend.level=D0 with"
            " backend.reconfigure=checkpoint, which only warns"
        )
    return f"{type(error).__name__}: {text}"


def _is_lost(error: Exception) -> bool:
    """Return whether an error looks like the death of another worker or of a loader process."""
    text = str(error)
    return type(error).__name__.startswith(("Dist", "GroupLost", "LoaderKilledError")) or any(
        sign in text for sign in ("gloo", "NCCL", "Connection closed by peer", "Connection reset")
    )

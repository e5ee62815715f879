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
from typing import NoReturn, TypeAlias

from harness.machine.failures import is_of_machine
from systems.restart.order import WorkerOrder
from systems.runtime.wire.control import TOKEN_VARIABLE, ControlClient, ControlError, Message

_NOT_DETERMINISTIC = " does not have a deterministic implementation"
"""Torch's message about an operator, after its name, if ``determinism`` forbids the operator."""

Train: TypeAlias = Callable[[Message, ControlClient, float], None]
"""Called with the order's message, the connection to the driver, and the time the order came."""


def main(argv: Sequence[str]) -> NoReturn:
    """Run a worker with the arguments ``ADDRESS PORT JOB_ID GENERATION RANK``; its token is in the
    environment."""
    address, port, job_id, generation, rank = argv
    greeting = {
        "kind": "greeting",
        "job_id": job_id,
        "generation": int(generation),
        "rank": int(rank),
        "token": os.environ.pop(TOKEN_VARIABLE, ""),
        "pid": os.getpid(),
    }
    client = ControlClient(address, int(port), greeting)
    work(client, _train)


def _train(message: Message, client: ControlClient, ordered_at: float) -> None:
    order = WorkerOrder.from_message(message)
    loop = importlib.import_module("systems.restart.training_loop")
    loop.train(order, client, ordered_at)


def work(client: ControlClient, train: Train) -> NoReturn:
    """Wait for the order, train, and end this process; report a failure to the driver."""
    try:
        message = client.receive(None)  # the driver limits how long a start may take
        if message.get("kind") != "order":
            raise ControlError(f"the driver sent {message.get('kind')!r} instead of an order")
        train(message, client, time.monotonic())
    except Exception as error:
        with suppress(OSError):  # the log may not be writable
            traceback.print_exc()
        client.send(
            {
                "kind": "failed",
                "reason": _reason(error),
                "collective": _is_lost(error),
                "of_machine": is_of_machine(error),
                "is_of_all": getattr(error, "is_of_all", False),
            }
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
    if type(error).__module__.startswith("systems."):
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

"""Entry point of a worker process: it greets the driver, gets its order, trains and leaves."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

from harness.machine.failures import is_of_machine
from systems.elastic.wire.messages import TO_MEMBER, MemberGreeting
from systems.elastic.wire.order import SCRIPT, ElasticOrder
from systems.restart.main import work
from systems.runtime.wire.control import TOKEN_VARIABLE, ControlClient
from systems.runtime.wire.messages import Failed
from systems.runtime.wire.protocol import sendable


def main(argv: Sequence[str]) -> NoReturn:
    """Run a worker. Arguments: ``ADDRESS PORT JOB_ID WORKER``; the token is in the environment."""
    address, port, job_id, worker = argv
    token = os.environ.pop(TOKEN_VARIABLE, "")
    greeting = MemberGreeting(job_id=job_id, worker=worker, token=token, pid=os.getpid())
    client = ControlClient(address, int(port), greeting, TO_MEMBER)
    threading.excepthook = partial(_end, client)
    work(client, partial(_train, token), ElasticOrder)


def _end(client: ControlClient, args: threading.ExceptHookArgs) -> NoReturn:
    """End this process, since one of its threads has failed.

    The driver is told the reason. Other workers, if any, go on as after a death.
    """
    name = args.thread.name if args.thread is not None else "a thread"
    with suppress(OSError):
        traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback)
    with suppress(Exception):
        reason = f"{name}: {args.exc_type.__name__}: {args.exc_value}"
        client.send(
            Failed(
                reason=sendable(reason),
                of_thread=True,
                of_machine=args.exc_value is not None and is_of_machine(args.exc_value),
            )
        )
    with suppress(OSError):  # a log that cannot be written
        sys.stderr.flush()
    os._exit(1)


def _train(token: str, order: ElasticOrder, client: ControlClient, ordered_at: float) -> None:
    # Imported only now: this loads the training library, which needs a complete environment.
    is_script = order.workload == SCRIPT
    name = "systems.script.run" if is_script else "systems.elastic.worker.loop"
    importlib.import_module(name).train(order, client, token, ordered_at)

"""A replica of a job under torchft: one worker, from its start to its end."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence

from systems.restart.main import work
from systems.runtime.wire.control import TOKEN_VARIABLE, ControlClient
from systems.runtime.wire.name_lookups import is_plain, never_look_up_names
from systems.torchft.messages import TO_REPLICA, ReplicaGreeting
from systems.torchft.order import ReplicaOrder


def main(argv: Sequence[str]) -> int:
    """Run a replica with the arguments ``ADDRESS PORT JOB_ID RUN NUMBER``; the token is in the
    environment."""
    address, port, job_id, run, number = argv
    if is_plain(address):
        never_look_up_names()  # torchft's threads connect to stores, too
    greeting = ReplicaGreeting(
        job_id=job_id,
        run=int(run),
        number=int(number),
        token=os.environ.pop(TOKEN_VARIABLE, ""),
        pid=os.getpid(),
    )
    work(ControlClient(address, int(port), greeting, TO_REPLICA), _train, ReplicaOrder)


def _train(order: ReplicaOrder, client: ControlClient, ordered_at: float) -> None:
    loop = importlib.import_module("systems.torchft.training_loop")
    loop.train(order, client, ordered_at)

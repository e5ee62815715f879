"""A job's store process: torch's TCPStore server, alone.

It is a process of its own so that it outlives every worker, and because a process that runs the
server must never fork. TCPStore knows no token: whoever reaches its port may read and write it,
so it listens on the job's address only (TCPStore by itself would listen on all).

Conversation on the control channel: greeting (``worker`` is ``"store"``); the driver sends
``{"kind": "order", "address": A}``; the store answers ``{"kind": "store", "address": A,
"port": P}`` and from then on ``{"kind": "beat"}`` twice a second, by which a driver can see that it
has not stopped. It lives until the driver says ``exit`` or has gone.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from systems.runtime.control import TOKEN_VARIABLE, ControlClient, ControlError
from systems.runtime.name_lookups import is_plain, never_look_up_names

ORDER_TIMEOUT_S = 60.0
BEAT_S = 0.5


def main(argv: Sequence[str]) -> int:
    """Entry point: ``ADDRESS PORT JOB_ID WORKER``, the token in the environment."""
    address, port, job_id, worker = argv
    greeting = {
        "kind": "greeting",
        "job_id": job_id,
        "worker": worker,
        "token": os.environ.pop(TOKEN_VARIABLE, ""),
        "pid": os.getpid(),
    }
    client = ControlClient(address, int(port), greeting)
    try:
        order = client.receive(ORDER_TIMEOUT_S)
        if order.get("kind") != "order" or not isinstance(order.get("address"), str):
            raise ControlError(f"the driver sent {order.get('kind')!r} instead of an order")
        server = StoreServer(order["address"])
        client.send({"kind": "store", "address": server.address, "port": server.port})
        while not _is_over(client):
            with suppress(OSError):  # a driver that has gone ends this process
                client.send({"kind": "beat"})
        code = 0
    except Exception as error:
        traceback.print_exc()
        client.send({"kind": "failed", "reason": f"{type(error).__name__}: {error}"})
        code = 1
    client.leave()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _is_over(client: ControlClient) -> bool:
    """Whether the driver has said so; waits for a beat's time."""
    with suppress(ControlError):  # it has said nothing
        return client.receive(BEAT_S).get("kind") == "exit"
    return False


class StoreServer:
    """TCPStore's server on a free port of one address; it ends with the process.

    If the address is a plain number, this process asks no name server any more: one lost
    answer would hold up all clients.
    """

    def __init__(self, address: str) -> None:
        """Begin to serve.

        Raises:
            OSError: the address is none of this machine's.
        """
        if is_plain(address):
            never_look_up_names()
        # Imported here: the greeting shall not wait for it.
        from torch._C._distributed_c10d import TCPStore

        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, 0), family=family, backlog=512)
        self.address = address
        self.port = int(listener.getsockname()[1])
        self._store = TCPStore(
            address,
            self.port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )

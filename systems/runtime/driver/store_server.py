"""Store process of a job: torch's TCPStore server, alone.

It has its own process because it must outlive every worker, and because a process that runs the
server must never fork. TCPStore checks no token: any process that reaches its port may read and
write it. So it listens on the job's address only (TCPStore by itself listens on all).

Conversation on the control channel: greeting (``worker`` is ``"store"``); the driver sends
``{"kind": "order", "address": A}``; the store answers ``{"kind": "store", "address": A, "port":
P}``. From then on it sends ``{"kind": "beat"}`` twice a second, so that the driver sees that it has
not stopped. It lives until the driver sends ``exit`` or has gone.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from systems.runtime.wire.control import TOKEN_VARIABLE, ControlClient, ControlError
from systems.runtime.wire.name_lookups import is_plain, never_look_up_names

ORDER_TIMEOUT_S = 60.0
BEAT_S = 0.5


def main(argv: Sequence[str]) -> int:
    """Run the store: ``ADDRESS PORT JOB_ID WORKER``, with the token in the environment."""
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
    """Return whether the driver has sent ``exit``; wait for it as long as one beat."""
    with suppress(ControlError):  # it has said nothing
        return client.receive(BEAT_S).get("kind") == "exit"
    return False


class StoreServer:
    """TCPStore's server on a free port of one address; it ends with the process.

    If the address is a plain number, this process makes no name look-ups: one lost answer of a name
    server would delay all clients.
    """

    def __init__(self, address: str) -> None:
        """Begin to serve.

        Raises:
            OSError: the address is not one of this machine.
        """
        if is_plain(address):
            never_look_up_names()
        # Imported here, so that the greeting does not wait for it.
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

"""Store process of a job: torch's TCPStore server, alone.

It has its own process because it must outlive every worker, and because a process that runs the
server must never fork. TCPStore checks no token: any process that reaches its port may read and
write it. So it listens on the job's address only (TCPStore by itself listens on all).

Conversation on the control channel: the store greets; the driver sends a ``StoreOrder``; the store
answers with ``StoreReady``. From then on it sends a ``Beat`` twice a second, so that the driver
sees that it has not stopped. It lives until the driver sends ``MayExit`` or has gone.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from systems.runtime.wire.control import TOKEN_VARIABLE, ControlClient
from systems.runtime.wire.messages import (
    TO_STORE,
    Beat,
    Failed,
    MayExit,
    StoreGreeting,
    StoreOrder,
    StoreReady,
)
from systems.runtime.wire.name_lookups import is_plain, never_look_up_names
from systems.runtime.wire.protocol import ControlError, sendable

ORDER_TIMEOUT_S = 60.0
BEAT_S = 0.5


def main(argv: Sequence[str]) -> int:
    """Run the store: ``ADDRESS PORT JOB_ID WORKER``, with the token in the environment."""
    address, port, job_id, _ = argv
    token = os.environ.pop(TOKEN_VARIABLE, "")
    greeting = StoreGreeting(job_id=job_id, token=token, pid=os.getpid())
    client = ControlClient(address, int(port), greeting, TO_STORE)
    try:
        server = StoreServer(client.expect(StoreOrder, ORDER_TIMEOUT_S).address)
        client.send(StoreReady(address=server.address, port=server.port))
        while not _is_over(client):
            with suppress(OSError):  # a driver that has gone ends this process
                client.send(Beat())
        code = 0
    except Exception as error:
        traceback.print_exc()
        client.send(Failed(reason=sendable(f"{type(error).__name__}: {error}")))
        code = 1
    client.leave()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _is_over(client: ControlClient) -> bool:
    """Return whether the driver has sent ``exit``; wait for it as long as one beat."""
    with suppress(ControlError):  # it has said nothing
        return isinstance(client.next_message(BEAT_S), MayExit)
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

"""Process of a job's lighthouse, torchft's own server, which makes the quorums.

A lighthouse checks no token, so it listens on the job's address only. It lives until the driver
kills it or has gone.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Sequence

from systems.runtime.wire.control import TOKEN_VARIABLE, ControlClient
from systems.runtime.wire.messages import Failed
from systems.runtime.wire.protocol import sendable
from systems.torchft.messages import TO_LIGHTHOUSE, LighthouseGreeting, LighthouseListens
from systems.torchft.order import LighthouseOrder

ORDER_TIMEOUT_S = 60.0


def main(argv: Sequence[str]) -> int:
    """Serve, with the arguments ``ADDRESS PORT JOB_ID RUN`` and the token in the environment."""
    address, port, job_id, run = argv
    greeting = LighthouseGreeting(
        job_id=job_id,
        run=int(run),
        token=os.environ.pop(TOKEN_VARIABLE, ""),
        pid=os.getpid(),
    )
    client = ControlClient(address, int(port), greeting, TO_LIGHTHOUSE)
    try:
        order = client.expect(LighthouseOrder, ORDER_TIMEOUT_S)
        # Imported here, so that the greeting does not wait for it.
        from torchft.coordination import LighthouseServer

        server = LighthouseServer(
            bind=f"{order.address}:0",
            min_replicas=order.min_replicas,
            join_timeout_ms=int(1000 * order.join_timeout_s),
            quorum_tick_ms=int(1000 * order.quorum_tick_s),
            heartbeat_timeout_ms=int(1000 * order.heartbeat_timeout_s),
        )
    except Exception as error:
        traceback.print_exc()
        client.send(Failed(reason=sendable(f"{type(error).__name__}: {error}")))
        client.leave()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    # Its own address has the host's name, which replicas may be unable to look up.
    server_port = server.address().rpartition(":")[2]
    client.send(LighthouseListens(address=f"http://{order.address}:{server_port}"))
    threading.Event().wait()
    return 0

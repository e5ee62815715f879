"""A TorchElastic agent: ``torchrun`` in a process of the driver's, for one slot.

Torch's own command is called as a user calls it. Around it: the order comes over the control
channel, what TorchElastic measures of itself goes back there, and no end of the driver leaves
an agent or a worker behind (workers run in sessions of their own: they die with the agent).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress

from systems.runtime.control import TOKEN_VARIABLE, ControlClient
from systems.torchrun.order import AgentOrder

ORDER_TIMEOUT_S = 300.0
WORKER_ENTRY = "systems.torchrun.worker:main"


def main(argv: Sequence[str]) -> int:
    """Entry point: ``ADDRESS PORT JOB_ID AGENT``, the token in the environment.

    The token stays in the environment, from which the workers take theirs.
    """
    address, port, job_id, number = argv
    greeting = {
        "kind": "greeting",
        "job_id": job_id,
        "worker": "agent",
        "agent": int(number),
        "token": os.environ.get(TOKEN_VARIABLE, ""),
        "pid": os.getpid(),
    }
    client = ControlClient(address, int(port), greeting)
    code = _run(client, [str(os.getpid()), ",", WORKER_ENTRY, *argv])
    client.leave()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _obey(client: ControlClient) -> None:
    """Kill the workers that the driver has heard nothing of, while TorchElastic has the main
    thread: to it that is a death like any other."""
    while True:
        message = client.receive(None)
        if message["kind"] == "kill":
            with suppress(ProcessLookupError):
                os.kill(message["pid"], signal.SIGKILL)


def _run(client: ControlClient, worker: Sequence[str]) -> int:
    """Import, wait for the order, be an agent until all is over; returns the exit code."""
    # Else the workers' own store is one that lives in the first agent, and the group cannot
    # be formed anew once that agent is no longer the first.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import SignalException

    from systems.torchrun.measured import report_to

    report_to(client)
    client.send({"kind": "ready"})
    order = AgentOrder.from_message(client.receive(ORDER_TIMEOUT_S))
    threading.Thread(target=_obey, args=(client,), name="obey", daemon=True).start()
    arguments = [*order.arguments(), "--module", "systems.runtime.process", *worker]
    print("torchrun", *arguments, flush=True)
    try:
        run.main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except SignalException as end:
        return 128 + end.sigval
    except BaseException:
        traceback.print_exc()
        return 1
    return 0

"""A TorchElastic agent: ``torchrun`` for one slot, in a process that the driver starts.

Torch's own command is called as a user calls it. In addition, the order comes over the control
channel, and TorchElastic's own measurements go back there. The agent and its worker die with the
driver; workers have sessions of their own and die with the agent.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress

from systems.runtime.wire.control import TOKEN_VARIABLE, ControlClient
from systems.torchrun.messages import TO_AGENT, AgentGreeting, KillWorker, Ready
from systems.torchrun.order import AgentOrder

ORDER_TIMEOUT_S = 300.0
WORKER_ENTRY = "systems.torchrun.worker:main"


def main(argv: Sequence[str]) -> int:
    """Run an agent; arguments: ``ADDRESS PORT JOB_ID AGENT``, with the token in the environment.

    The token stays in the environment, where the workers find it.
    """
    address, port, job_id, number = argv
    greeting = AgentGreeting(
        job_id=job_id,
        agent=int(number),
        token=os.environ.get(TOKEN_VARIABLE, ""),
        pid=os.getpid(),
    )
    client = ControlClient(address, int(port), greeting, TO_AGENT)
    code = _run(client, [str(os.getpid()), ",", WORKER_ENTRY, *argv])
    client.leave()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _obey(client: ControlClient) -> None:
    """Kill the workers that the driver names as silent; TorchElastic sees a death like any other.

    The function runs on its own thread, since TorchElastic occupies the main thread.
    """
    while True:
        message = client.next_message(None)
        if isinstance(message, KillWorker):
            with suppress(ProcessLookupError):
                os.kill(message.pid, signal.SIGKILL)


def _run(client: ControlClient, worker: Sequence[str]) -> int:
    """Import, wait for the order, and be an agent to the end; return the exit code."""
    # Otherwise the first agent would hold the workers' store, and the group could not be formed
    # again once another agent is the first.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import SignalException

    from systems.torchrun.measured import report_to

    report_to(client)
    client.send(Ready())
    order = client.expect(AgentOrder, ORDER_TIMEOUT_S)
    threading.Thread(target=_obey, args=(client,), name="obey", daemon=True).start()
    arguments = [*order.arguments(), "--module", "systems.runtime.wire.process", *worker]
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

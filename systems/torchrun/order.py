"""The driver's order to each TorchElastic agent of a job. Both sides use the module, so it does not
import torch."""

from __future__ import annotations

from harness.files.safe_names import file_name
from systems.runtime.wire.protocol import Count, Message, Seconds


class AgentOrder(Message, frozen=True, kw_only=True, tag="agent_order"):
    """Driver to agent, once the store listens: the settings of its ``torchrun``.

    They are the same for all agents of a job except for the address.
    """

    job_id: str
    store: str
    """``address:port`` of the rendezvous' store."""
    address: str
    """Address of the agent's host; the first worker's store listens there."""
    max_nodes: Count
    last_call_timeout_s: Count
    keep_alive_interval_s: Count
    keep_alive_attempts: Count
    monitor_interval_s: Seconds
    max_restarts: Count
    log_dir: str

    def arguments(self) -> list[str]:
        """Return the arguments of ``torchrun``, without the script's own.

        Each agent has one worker, and the number of agents may vary. No agent holds the store, so
        that every agent can be removed.
        """
        settings = {
            "is_host": "false",
            "last_call_timeout": self.last_call_timeout_s,
            "keep_alive_interval": self.keep_alive_interval_s,
            "keep_alive_max_attempt": self.keep_alive_attempts,
        }
        return [
            f"--nnodes=1:{self.max_nodes}",
            "--nproc-per-node=1",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={self.store}",
            f"--rdzv-id={file_name(self.job_id)}",  # torchrun uses it as the name of a folder
            f"--rdzv-conf={','.join(f'{key}={value}' for key, value in settings.items())}",
            f"--local-addr={self.address}",
            f"--monitor-interval={self.monitor_interval_s}",
            f"--max-restarts={self.max_restarts}",
            f"--log-dir={self.log_dir}",
        ]

"""Torchrun: TorchElastic's own agents, which stop and restart all workers at every change."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Unpack

from harness.cluster import Cluster
from harness.contracts.abilities import Abilities, Phases
from systems.runtime.driver.backend import DrivenBackend
from systems.runtime.driver.ending import STARTING
from systems.runtime.driver.job_protocol import MakeJob
from systems.runtime.wire.options import RuntimeChoices, RuntimeOptions
from systems.torchrun.job import TorchrunJob
from systems.torchrun.options import TorchrunOptions


class Torchrun(DrivenBackend):
    """PyTorch without another elastic system: ``torchrun --nnodes=1:N``.

    Source: TorchElastic (``torch.distributed.run``), as it comes with torch. Each slot has one
    agent. The rendezvous (c10d) is in a store that outlives all agents. The driver starts and ends
    agents. TorchElastic itself stops the workers, repeats the rendezvous and starts them again.
    Progress since the last checkpoint is lost at every change, and steps that are executed twice
    occur twice in the step log.

    Differs from a user's ``torchrun``: the workers' store listens only on the host's own address.
    An exception in a workload's own code fails the job at once, while TorchElastic would repeat it
    ``max_restarts`` times. Ranks follow the agents' process ids, not the order of the slots.
    """

    name: ClassVar[str] = "torchrun"
    warmths: ClassVar[tuple[str, ...]] = ("cold",)
    """Allowed values of ``start``."""

    def __init__(
        self,
        checkpoint_every: int = 10,
        last_call_timeout_s: int = 2,
        keep_alive_interval_s: int = 5,
        keep_alive_attempts: int = 3,
        monitor_interval_s: float = 0.1,
        max_restarts: int = 100,
        **choices: Unpack[RuntimeChoices],
    ) -> None:
        """Check the options; raise ValueError with all values that are out of range."""
        self._options = TorchrunOptions(
            runtime=RuntimeOptions(
                checkpoint_every=checkpoint_every, replay_layout=False, **choices
            ),
            last_call_timeout_s=last_call_timeout_s,
            keep_alive_interval_s=keep_alive_interval_s,
            keep_alive_attempts=keep_alive_attempts,
            monitor_interval_s=monitor_interval_s,
            max_restarts=max_restarts,
        )
        super().__init__(self._options.runtime)

    @property
    def abilities(self) -> Abilities:
        """Abilities: any change of the slots, but no change of the batch alone, and not the same
        bits.

        Agents continue without an agent that died; a worker that dies is started again.
        """
        return Abilities(rescale=True, suspend=True, migrate=True, share_device=True, survive=True)

    @property
    def phases(self) -> Phases:
        """Phases: detection that agents joined or left, then a start of all workers."""
        meeting = ("rendezvous", *STARTING)
        return Phases(
            start=("agents", *meeting),
            rescale=("detect", "stop", *meeting),
            suspend=("save", "stop"),
            stopped=(),  # training continues during a part of ``detect`` that is not measured
        )

    def _jobs(self, cluster: Cluster) -> MakeJob:
        return partial(TorchrunJob, self._options, cluster)

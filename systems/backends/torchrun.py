"""Torchrun: TorchElastic's own agents, which stop and restart all workers at every change."""

from __future__ import annotations

from typing import ClassVar

from harness.cluster import Cluster
from harness.contracts.abilities import Abilities, Phases
from harness.contracts.training_order import TrainingOrder
from systems.runtime.driver.backend import DrivenBackend
from systems.runtime.driver.ending import STARTING
from systems.runtime.driver.job_protocol import DrivenJob, JobServices, MakeJob
from systems.runtime.wire.options import RuntimeOptions
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
        start: str = "cold",
        device: str = "auto",
        bind: str = "127.0.0.1",
        data_order: str = "positions",
        block_samples: int = 64,
        checkpoint_every: int = 10,
        last_call_timeout_s: int = 2,
        keep_alive_interval_s: int = 5,
        keep_alive_attempts: int = 3,
        monitor_interval_s: float = 0.1,
        max_restarts: int = 100,
        start_timeout_s: float = 300.0,
        stop_timeout_s: float = 120.0,
        hang_timeout_s: float = 10.0,
        collective_timeout_s: float = 1800.0,
    ) -> None:
        """Check the options; raise ValueError with all values that are out of range."""
        self._options = TorchrunOptions(
            runtime=RuntimeOptions(
                start=start,
                device=device,
                bind=bind,
                checkpoint_every=checkpoint_every,
                start_timeout_s=start_timeout_s,
                stop_timeout_s=stop_timeout_s,
                hang_timeout_s=hang_timeout_s,
                collective_timeout_s=collective_timeout_s,
                replay_layout=False,
                data_order=data_order,
                block_samples=block_samples,
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
        def make_job(
            order: TrainingOrder, services: JobServices, before: DrivenJob | None
        ) -> DrivenJob:
            serial = before.serial if before is not None else 0
            return TorchrunJob(order, services, self._options, cluster, serial)

        return make_job

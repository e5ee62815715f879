"""Torchrun: TorchElastic's own agents, which stop and restart all workers at every change."""

from __future__ import annotations

from typing import ClassVar

from harness.cluster import Cluster
from harness.contracts.engine import Abilities, Change
from harness.contracts.launcher import Launcher
from harness.contracts.training import Phases, Report, TrainingOrder
from systems.runtime.driven_job import DrivenJob, Hands
from systems.runtime.driver import Driver
from systems.runtime.job_life import STARTING
from systems.runtime.options import RuntimeOptions
from systems.torchrun.job import TorchrunJob
from systems.torchrun.options import TorchrunOptions


class Torchrun:
    """What a user of PyTorch gets without any elastic system: ``torchrun --nnodes=1:N``.

    Source: TorchElastic (``torch.distributed.run``), as it comes with torch. One agent for
    each slot, its rendezvous (c10d) in a store that outlives all agents. Agents are started
    and ended; that workers are stopped, meet anew and are started again is TorchElastic's own
    doing. Progress since the last checkpoint is lost at every change, and the steps that are
    executed twice are in the step log twice.

    Differs from a user's ``torchrun``: the workers' store listens on the host's own address
    alone; an exception in a workload's own code fails the job at once, where TorchElastic
    would repeat it ``max_restarts`` times. Ranks follow the agents' process ids, not the order
    of the slots.
    """

    warmths: ClassVar[tuple[str, ...]] = ("cold",)
    """What ``start`` may be."""

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
        collective_timeout_s: float = 1800.0,
    ) -> None:
        """Raises ValueError with all options that are out of range."""
        self.name = "torchrun"
        self._options = TorchrunOptions(
            runtime=RuntimeOptions(
                start=start,
                device=device,
                bind=bind,
                checkpoint_every=checkpoint_every,
                start_timeout_s=start_timeout_s,
                stop_timeout_s=stop_timeout_s,
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
        self._driver: Driver | None = None

    @property
    def abilities(self) -> Abilities:
        """Any change of the slots, but none of the batch alone, and not the same bits."""
        return Abilities(rescale=True, suspend=True, migrate=True)

    @property
    def phases(self) -> Phases:
        """Detecting that agents came or went, then a start of all workers."""
        meeting = ("rendezvous", *STARTING)
        return Phases(
            start=("agents", *meeting),
            rescale=("detect", "stop", *meeting),
            suspend=("save", "stop"),
            stopped=(),  # training goes on during a part of ``detect`` that nobody measures
        )

    def open(self, cluster: Cluster, launcher: Launcher) -> None:
        """Make ready.

        Raises:
            RuntimeSetupError: no such address here.
        """

        def make_job(order: TrainingOrder, hands: Hands, before: DrivenJob | None) -> DrivenJob:
            serial = before.serial if before is not None else 0
            return TorchrunJob(order, hands, self._options, cluster, serial)

        self._driver = Driver(self._options.runtime, cluster, launcher, make_job)

    def start(self, change: Change, order: TrainingOrder) -> None:
        """Start a job's agents from scratch."""
        self._running.start(change, order)

    def rescale(self, change: Change) -> None:
        """Start agents on the slots that are new and end those on the slots given up."""
        self._running.alter(change)

    def suspend(self, change: Change) -> None:
        """Save and stop."""
        self._running.alter(change)

    def resume(self, change: Change) -> None:
        """Start from the last checkpoint, or from scratch if the job never wrote one."""
        self._running.resume(change)

    def stop(self, change: Change) -> None:
        """End the job without finishing it."""
        self._running.stop(change)

    def hold(self, job_id: str, target_step: int) -> None:
        """Move the step at which the job finishes."""
        self._running.hold(job_id, target_step)

    def poll(self, timeout_s: float) -> list[Report]:
        """Reports since the last call, in order."""
        return self._running.poll(timeout_s)

    def close(self) -> None:
        """End every process. Safe to call twice, and before ``open``."""
        if self._driver is not None:
            self._driver.close()

    @property
    def _running(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("the backend is not open; call open(cluster, launcher) first")
        return self._driver

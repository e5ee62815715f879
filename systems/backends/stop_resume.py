"""Stop-resume: checkpoint, stop every process, start again at the new size."""

from __future__ import annotations

from typing import ClassVar

from harness.cluster import Cluster
from harness.contracts.abilities import Abilities, Phases
from systems.restart.launch import grouped_jobs
from systems.runtime.driver.backend import DrivenBackend
from systems.runtime.driver.ending import restart_phases
from systems.runtime.driver.job_protocol import MakeJob
from systems.runtime.wire.options import RuntimeOptions


class StopResume(DrivenBackend):
    """Checkpoint and restart, the baseline: schedulers without elastic training use it.

    Source: the stop-and-resume of the EDL paper (section 6.1), and the halt and resume with another
    batch of Saxena et al. (section III). Differs: all workers end at one agreed step boundary, so
    that no step is lost. The checkpoint is verified when it is read. New workers start only after
    the old ones have ended, since they share the slots.

    The options are the fields of ``RuntimeOptions``.
    """

    name: ClassVar[str] = "stop_resume"

    def __init__(
        self,
        start: str = "cold",
        device: str = "auto",
        bind: str = "127.0.0.1",
        checkpoint_every: int = 0,
        start_timeout_s: float = 300.0,
        stop_timeout_s: float = 120.0,
        hang_timeout_s: float = 10.0,
        collective_timeout_s: float = 1800.0,
        replay_layout: bool = True,
        reduction: str = "ddp",
        data_order: str = "positions",
        block_samples: int = 64,
        prefetch_steps: int = 0,
        loader_processes: int = 0,
    ) -> None:
        """Check the options; raise ValueError with all values that are out of range."""
        runtime = RuntimeOptions(
            start=start,
            device=device,
            bind=bind,
            checkpoint_every=checkpoint_every,
            start_timeout_s=start_timeout_s,
            stop_timeout_s=stop_timeout_s,
            hang_timeout_s=hang_timeout_s,
            collective_timeout_s=collective_timeout_s,
            replay_layout=replay_layout,
            reduction=reduction,
            data_order=data_order,
            block_samples=block_samples,
            prefetch_steps=prefetch_steps,
            loader_processes=loader_processes,
        )
        super().__init__(runtime)

    @property
    def abilities(self) -> Abilities:
        """Abilities that a restart provides; the bits differ at another size."""
        return Abilities(
            rescale=True,
            suspend=True,
            migrate=True,
            change_batch=True,
            adapt_batch=True,
            share_device=True,
        )

    @property
    def phases(self) -> Phases:
        """Phases of a start; a rescale saves and stops first."""
        return restart_phases()

    def _jobs(self, cluster: Cluster) -> MakeJob:
        return grouped_jobs(self._runtime, cluster)

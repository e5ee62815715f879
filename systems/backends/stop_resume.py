"""Stop-resume: checkpoint, stop every process, start again at the new size."""

from __future__ import annotations

from typing import ClassVar, Unpack

from harness.cluster import Cluster
from harness.contracts.abilities import Abilities, Phases
from systems.restart.launch import grouped_jobs
from systems.runtime.driver.backend import DrivenBackend
from systems.runtime.driver.ending import restart_phases
from systems.runtime.driver.job_protocol import MakeJob
from systems.runtime.wire.options import FetchingChoices, RuntimeOptions


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
        checkpoint_every: int = 0,
        replay_layout: bool = True,
        reduction: str = "ddp",
        **choices: Unpack[FetchingChoices],
    ) -> None:
        """Check the options; raise ValueError with all values that are out of range."""
        runtime = RuntimeOptions(
            checkpoint_every=checkpoint_every,
            replay_layout=replay_layout,
            reduction=reduction,
            **choices,
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

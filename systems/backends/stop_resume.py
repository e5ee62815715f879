"""Stop-resume: checkpoint, stop every process, start again at the new size."""

from __future__ import annotations

from typing import ClassVar

from harness.cluster import Cluster
from harness.contracts.engine import Abilities, Change
from harness.contracts.launcher import Launcher
from harness.contracts.training import Phases, Report, TrainingOrder
from systems.runtime.driver import Driver
from systems.runtime.job_life import STARTING
from systems.runtime.options import RuntimeOptions
from systems.runtime.processes import grouped_jobs


class StopResume:
    """What schedulers without elastic training do to a job: the baseline of elastic backends.

    Source: the stop-and-resume of the EDL paper (section 6.1), and the halt and resume with
    another batch of Saxena et al. (section III). Differs: all workers end at one agreed step
    boundary, so that no step is lost; the checkpoint is verified when it is read; nothing is
    started before the old workers are gone, since they share the slots.

    The options are the fields of ``RuntimeOptions``.
    """

    warmths: ClassVar[tuple[str, ...]] = ("cold", "preimported")
    """What ``start`` may be."""

    def __init__(
        self,
        start: str = "cold",
        device: str = "auto",
        bind: str = "127.0.0.1",
        checkpoint_every: int = 0,
        start_timeout_s: float = 300.0,
        stop_timeout_s: float = 120.0,
        collective_timeout_s: float = 1800.0,
        replay_layout: bool = True,
        reduction: str = "ddp",
        data_order: str = "positions",
        block_samples: int = 64,
        prefetch_steps: int = 0,
        loader_processes: int = 0,
    ) -> None:
        """Raises ValueError with all options that are out of range."""
        self.name = "stop_resume"
        self._options = RuntimeOptions(
            start=start,
            device=device,
            bind=bind,
            checkpoint_every=checkpoint_every,
            start_timeout_s=start_timeout_s,
            stop_timeout_s=stop_timeout_s,
            collective_timeout_s=collective_timeout_s,
            replay_layout=replay_layout,
            reduction=reduction,
            data_order=data_order,
            block_samples=block_samples,
            prefetch_steps=prefetch_steps,
            loader_processes=loader_processes,
        )
        self._driver: Driver | None = None

    @property
    def abilities(self) -> Abilities:
        """Everything that a restart can bring, but not the same bits at another size."""
        return Abilities(rescale=True, suspend=True, migrate=True, change_batch=True)

    @property
    def phases(self) -> Phases:
        """A start's, with the way out before them in a rescale."""
        stop = ("save", "stop")
        stopped = (*stop, *STARTING[:-1], "layout")
        return Phases(STARTING, (*stop, *STARTING), stop, stopped)

    def open(self, cluster: Cluster, launcher: Launcher) -> None:
        """Make ready.

        Raises:
            RuntimeSetupError: no such address here, or the pre-import failed.
        """
        make_job = grouped_jobs(self._options, cluster)
        self._driver = Driver(self._options, cluster, launcher, make_job)

    def start(self, change: Change, order: TrainingOrder) -> None:
        """Start a job's workers from scratch."""
        self._running.start(change, order)

    def rescale(self, change: Change) -> None:
        """Save, stop and start again with the slots and the batch of ``change``."""
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

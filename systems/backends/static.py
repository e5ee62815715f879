"""Static: stock DistributedDataParallel on the slots a job was started with."""

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

_WAY_OUT = "choose a backend that can, for example backend=stop_resume"


class Static:
    """Jobs train from start to end on the slots they got; the reference for all others.

    A job whose workers died can be resumed, which here means from scratch: there are no
    checkpoints. The options are those of ``RuntimeOptions`` that make sense without them.
    """

    warmths: ClassVar[tuple[str, ...]] = ("cold", "preimported")
    """What ``start`` may be."""

    def __init__(
        self,
        start: str = "cold",
        device: str = "auto",
        bind: str = "127.0.0.1",
        start_timeout_s: float = 300.0,
        stop_timeout_s: float = 120.0,
        collective_timeout_s: float = 1800.0,
        reduction: str = "ddp",
        data_order: str = "positions",
        block_samples: int = 64,
        prefetch_steps: int = 0,
        loader_processes: int = 0,
    ) -> None:
        """Raises ValueError with all options that are out of range."""
        self.name = "static"
        self._options = RuntimeOptions(
            start=start,
            device=device,
            bind=bind,
            start_timeout_s=start_timeout_s,
            stop_timeout_s=stop_timeout_s,
            collective_timeout_s=collective_timeout_s,
            reduction=reduction,
            data_order=data_order,
            block_samples=block_samples,
            prefetch_steps=prefetch_steps,
            loader_processes=loader_processes,
        )
        self._driver: Driver | None = None

    @property
    def abilities(self) -> Abilities:
        """None but training, bitwise as stock DistributedDataParallel."""
        return Abilities(bitwise=True)

    @property
    def phases(self) -> Phases:
        """A start's."""
        return Phases(STARTING, (), (), ())

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
        """Refused."""
        self._running.refuse(change, f"static cannot {change.kind.value} a job; {_WAY_OUT}")

    def suspend(self, change: Change) -> None:
        """Refused."""
        self._running.refuse(change, f"static cannot suspend a job; {_WAY_OUT}")

    def resume(self, change: Change) -> None:
        """Start a job whose workers died again, from scratch."""
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

"""Common part of all backends on the driver: they open it and pass requests on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from harness.cluster import Cluster
from harness.contracts.abilities import Reference
from harness.contracts.backend_reports import Report
from harness.contracts.change import Change
from harness.contracts.launcher import Launcher
from harness.contracts.process import Warmth
from harness.contracts.training_order import TrainingOrder
from systems.runtime.driver.driver import Driver
from systems.runtime.driver.job_protocol import MakeJob
from systems.runtime.wire.kernels import warmth_problems
from systems.runtime.wire.options import RuntimeOptions


class DrivenBackend(ABC):
    """Base of a ``Backend`` on the driver. A subclass adds its abilities and, in ``_jobs``, its
    kind of job."""

    name: ClassVar[str]
    warmths: ClassVar[tuple[str, ...]] = tuple(Warmth)
    """Allowed values of ``start``."""

    def __init__(self, runtime: RuntimeOptions) -> None:
        self._runtime = runtime
        self._driver: Driver | None = None

    @property
    def warmth(self) -> Warmth:
        """Way in which its workers start."""
        return self._runtime.warmth

    @property
    def executors(self) -> int:
        """Largest number of worker processes that a job has on one slot."""
        return self._runtime.executors

    @property
    def checkpoint_every(self) -> int:
        """Number of steps between two checkpoints."""
        return self._runtime.checkpoint_every

    def problems(self, cluster: Cluster) -> list[str]:
        """Return why workers would start too warm for the kernels they need; empty if they would
        not."""
        common = self._runtime.common_kernels
        return warmth_problems(self._runtime.warmth, cluster, common=common)

    def warnings(self, cluster: Cluster) -> list[str]:
        """Return no warnings."""
        return []

    def bitwise(self, cluster: Cluster) -> bool:
        """Return False: this kind of backend promises no bits."""
        return False

    def reference(self, cluster: Cluster) -> Reference:
        """Refuse; a backend that keeps the bits of a training on fixed workers overrides this.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            f"jobs under {self.name} are bitwise equal to no training on fixed workers; set"
            " engine.check_reference=false, or choose a backend that keeps such bits"
            " (backend=virtual_thread, backend=static)"
        )

    @abstractmethod
    def _jobs(self, cluster: Cluster) -> MakeJob:
        """Return the function with which the driver makes its jobs."""

    def open(self, cluster: Cluster, launcher: Launcher) -> None:
        """Open the driver.

        Raises:
            RuntimeSetupError: the host lacks the address, or workers cannot start as ``start``
                says.
        """
        self._driver = Driver(self._runtime, cluster, launcher, self._jobs(cluster))

    def start(self, change: Change, order: TrainingOrder) -> None:
        """Start a job's workers from scratch."""
        self._running.start(change, order)

    def rescale(self, change: Change) -> None:
        """Continue a job with the slots and the batch of ``change``."""
        self._running.alter(change)

    def suspend(self, change: Change) -> None:
        """Save a job and stop its workers."""
        self._running.alter(change)

    def resume(self, change: Change) -> None:
        """Start from the last checkpoint, or from scratch if the job has never written one."""
        self._running.resume(change)

    def stop(self, change: Change) -> None:
        """End the job without finishing it."""
        self._running.stop(change)

    def set_target_step(self, job_id: str, target_step: int) -> None:
        """Move the step at which the job finishes."""
        self._running.set_target_step(job_id, target_step)

    def poll(self, timeout_s: float) -> list[Report]:
        """Return the reports since the last call, in order."""
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

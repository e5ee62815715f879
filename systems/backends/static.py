"""Static: stock DistributedDataParallel on the slots with which a job was started."""

from __future__ import annotations

from typing import ClassVar, Unpack

from harness.cluster import Cluster
from harness.contracts.abilities import Abilities, Phases, Reference
from harness.contracts.change import Change
from systems.backends.plain_ddp_reference import stock_training
from systems.restart.launch import grouped_jobs
from systems.runtime.driver.backend import DrivenBackend
from systems.runtime.driver.ending import STARTING
from systems.runtime.driver.job_protocol import MakeJob
from systems.runtime.wire.kernels import slot_types
from systems.runtime.wire.options import FetchingChoices, RuntimeOptions

_WAY_OUT = "choose a backend that supports it, for example backend=stop_resume"


class Static(DrivenBackend):
    """Backend without changes: jobs keep their first slots to the end. It is the reference for all
    others.

    A job whose workers died can be resumed, but only from scratch: there are no checkpoints. The
    options are those of ``RuntimeOptions`` that apply without checkpoints.
    """

    name: ClassVar[str] = "static"

    def __init__(self, reduction: str = "ddp", **choices: Unpack[FetchingChoices]) -> None:
        """Check the options; raise ValueError with all values that are out of range."""
        super().__init__(RuntimeOptions(reduction=reduction, **choices))

    @property
    def abilities(self) -> Abilities:
        """No ability beyond training."""
        return Abilities()

    @property
    def phases(self) -> Phases:
        """Phases of a start."""
        return Phases(STARTING, (), (), ())

    def bitwise(self, cluster: Cluster) -> bool:
        """Return whether all slots are of one type; otherwise the bits depend on a job's slots."""
        return len(slot_types(cluster, self._runtime)) == 1

    def reference(self, cluster: Cluster) -> Reference:
        """Return the reference, which is stock DistributedDataParallel itself.

        Raises:
            ValueError: with these options, or on these slots, the training differs from stock
                training.
        """
        return stock_training(self._runtime, cluster)

    def _jobs(self, cluster: Cluster) -> MakeJob:
        return grouped_jobs(self._runtime, cluster)

    def rescale(self, change: Change) -> None:
        """Refuse the change."""
        self._running.refuse(change, f"static cannot {change.kind.value} a job; {_WAY_OUT}")

    def suspend(self, change: Change) -> None:
        """Refuse the change."""
        self._running.refuse(change, f"static cannot suspend a job; {_WAY_OUT}")

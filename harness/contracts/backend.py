"""Backend: which workers compute the steps of training, and when.

A workload knows no rank, no device and no backend. A backend knows no model. Between the gradients
and the update the backend takes over and sums over the workers. Backends are driven from a process
that never imports a training library; only their worker processes import one.
"""

from __future__ import annotations

from typing import Protocol

from harness.cluster import Cluster
from harness.contracts.abilities import Abilities, Phases, Reference
from harness.contracts.backend_reports import Report
from harness.contracts.change import Change
from harness.contracts.launcher import Launcher
from harness.contracts.process import Warmth
from harness.contracts.training_order import TrainingOrder


class Backend(Protocol):
    """Mechanism that starts and rescales a job's workers. Implementations: ``systems/backends/``.

    No call waits for workers: requests return at once, and ``poll`` reports their outcome. A
    request for a job that already has a request in flight is answered with RETRY.
    """

    name: str

    @property
    def abilities(self) -> Abilities:
        """Abilities that a scheduler may require of the backend."""
        ...

    @property
    def phases(self) -> Phases:
        """Phases that the backend times in its reports of changes."""
        ...

    @property
    def warmth(self) -> Warmth:
        """Warmth with which the backend starts its workers."""
        ...

    @property
    def executors(self) -> int:
        """Most worker processes that one slot of a job has."""
        ...

    @property
    def checkpoint_every(self) -> int:
        """Steps between checkpoints that no change needs. 0: the backend writes none, and a loss
        costs all steps since the last change that saved."""
        ...

    def problems(self, cluster: Cluster) -> list[str]:
        """Return what the backend needs of its surroundings or of the cluster and cannot find. Each
        line has the option, the fact and the way out.

        The call is made before a live run. It may wait a few seconds and starts nothing.
        """
        ...

    def warnings(self, cluster: Cluster) -> list[str]:
        """Return what users may expect and the backend does not promise on these slots. Each line
        has the option, the fact and the way out. The lines are shown before a live run, which
        starts all the same."""
        ...

    def bitwise(self, cluster: Cluster) -> bool:
        """Return whether the backend's jobs end with the bits of their ``reference``, whichever of
        these slots they are given."""
        ...

    def reference(self, cluster: Cluster) -> Reference:
        """Return the program whose bits the backend's jobs must equal on these slots. It trains on
        as many fixed workers as the job has logical workers; without logical workers, on as many as
        the job was started on.

        Raises:
            ValueError: no fixed training equals these jobs on any slots; the text says why, and the
                way out.
        """
        ...

    def open(self, cluster: Cluster, launcher: Launcher) -> None:
        """Prepare the backend; called once before any request."""
        ...

    def start(self, change: Change, order: TrainingOrder) -> None:
        """Start a job's workers from scratch on ``change.slots``."""
        ...

    def rescale(self, change: Change) -> None:
        """Continue the job on ``change.slots`` with ``change.global_batch``; also for MIGRATE."""
        ...

    def suspend(self, change: Change) -> None:
        """Write a checkpoint and stop every process of the job."""
        ...

    def resume(self, change: Change) -> None:
        """Start the job from its checkpoint on ``change.slots``."""
        ...

    def stop(self, change: Change) -> None:
        """End the job without finishing it."""
        ...

    def set_target_step(self, job_id: str, target_step: int) -> None:
        """Set the step at which the job finishes. A step that has passed means the next step
        boundary."""
        ...

    def poll(self, timeout_s: float) -> list[Report]:
        """Return the reports since the last call, in order; wait up to ``timeout_s`` for the first
        one."""
        ...

    def close(self) -> None:
        """End every process. Safe to call twice."""
        ...

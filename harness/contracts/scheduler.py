"""Scheduler and placement: how many slots each job gets, and which slots.

A scheduler performs no I/O, reads no clock and leaves its input unchanged. It cannot ask which
engine runs. It builds private state only from the views that it has seen.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from harness.contracts.decision import Decision
from harness.contracts.view import ClusterView


class Knowledge(StrEnum):
    """Knowledge that a scheduler may request, beyond arrivals, requests and attained service."""

    REMAINING_WORK = "remaining_work"
    DEADLINE = "deadline"
    THROUGHPUT = "throughput"
    GRADIENT_NOISE = "gradient_noise"
    """Noise scale of a job's gradients, which says how far larger batches help."""


class Requirement(StrEnum):
    """Abilities that a scheduler needs from the backend (fields of ``Abilities``).

    SHARE_DEVICE also asks for a cluster whose devices jobs may share (``Cluster.shared_speed``). A
    scheduler that does not ask for it gets such a cluster with one slot per device, so that its
    jobs never share a device.
    """

    RESCALE = "rescale"
    SUSPEND = "suspend"
    MIGRATE = "migrate"
    CHANGE_BATCH = "change_batch"
    SHARE_DEVICE = "share_device"


class Checked(StrEnum):
    """Levels to which a scheduler was checked against its source; the class has it in ``checked``.

    A class with ``oracle = True`` uses knowledge that real systems lack. Its results are a bound
    that they cannot reach.
    """

    EXACT = "exact"
    """Checked on the worked examples of its source."""
    COMPARED = "compared"
    """Decisions compared with those of an independent implementation, or with an oracle."""
    DESCRIBED = "described"
    """Checked against prose only, because the source offers nothing else."""


class Scheduler(Protocol):
    """Deciding rule. One object serves one run. Implementations: ``systems/schedulers/``."""

    @property
    def needs(self) -> frozenset[Knowledge]:
        """Knowledge that the scheduler needs; everything else is withheld from its views."""
        ...

    @property
    def requires(self) -> frozenset[Requirement]:
        """Abilities that the backend must have."""
        ...

    @property
    def wants_progress(self) -> bool:
        """True if the scheduler is also asked after every PROGRESS and CHANGE_DONE. That costs one
        decision per report of each job; most schedulers need only arrivals, ends and failures."""
        ...

    def decide(self, view: ClusterView) -> Decision:
        """Return the grants that should change now; equal views give equal decisions."""
        ...

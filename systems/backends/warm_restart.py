"""Warm restart: all workers stop for a change, but keep their processes and their state."""

from __future__ import annotations

from typing import ClassVar

from harness.cluster import Cluster
from harness.contracts.engine import Abilities
from harness.contracts.training import Phases
from systems.elastic.elastic_job import elastic_jobs
from systems.elastic.options import elastic_options
from systems.runtime.driven_backend import DrivenBackend
from systems.runtime.driven_job import MakeJob


class WarmRestart(DrivenBackend):
    """What stands between stop-resume and stop-free: nothing is saved, everybody waits.

    Source: the executor of ElasticFlow (Gu et al., ASPLOS 2023, section 5), as far as it is
    described: a worker that stays keeps its process, its device context and its model; the
    state is handed over in memory; a checkpoint is written only when a job is suspended.
    Differs: newcomers take the state from one old worker each, and the machinery is that of
    ``stop_free``, so that the two differ in one thing alone: here training stops when a change
    is asked for and not when everything is ready for it.

    The options are those of ``stop_free`` that make sense here.
    """

    name: ClassVar[str] = "warm_restart"

    def __init__(
        self,
        start: str = "cold",
        device: str = "auto",
        bind: str = "127.0.0.1",
        checkpoint_every: int = 0,
        data_order: str = "blocks",
        block_samples: int = 64,
        prefetch_steps: int = 0,
        loader_processes: int = 0,
        recovery: str = "none",
        heartbeat_s: float = 0.1,
        hang_timeout_s: float = 2.0,
        leader_expiry_s: float = 3.0,
        leader_refresh_s: float = 1.0,
        start_timeout_s: float = 300.0,
        stop_timeout_s: float = 120.0,
        adjust_timeout_s: float = 300.0,
        leave_timeout_s: float = 30.0,
        recovery_timeout_s: float = 30.0,
        collective_timeout_s: float = 1800.0,
    ) -> None:
        """Raises ValueError with all options that are out of range."""
        self._options = elastic_options(
            transfer="peer",
            stops_first=True,
            start=start,
            device=device,
            bind=bind,
            checkpoint_every=checkpoint_every,
            data_order=data_order,
            block_samples=block_samples,
            prefetch_steps=prefetch_steps,
            loader_processes=loader_processes,
            recovery=recovery,
            heartbeat_s=heartbeat_s,
            hang_timeout_s=hang_timeout_s,
            leader_expiry_s=leader_expiry_s,
            leader_refresh_s=leader_refresh_s,
            start_timeout_s=start_timeout_s,
            stop_timeout_s=stop_timeout_s,
            adjust_timeout_s=adjust_timeout_s,
            leave_timeout_s=leave_timeout_s,
            recovery_timeout_s=recovery_timeout_s,
            collective_timeout_s=collective_timeout_s,
        )
        super().__init__(self._options.runtime)

    @property
    def abilities(self) -> Abilities:
        """Everything but a share of a device, and the same bits at another size."""
        survive = self._options.recovery != "none"
        return Abilities(
            rescale=True, suspend=True, migrate=True, change_batch=True, survive=survive
        )

    @property
    def phases(self) -> Phases:
        """As those of ``stop_free``; what newcomers do is part of ``switch`` for the others."""
        start = ("spawn", "import", "build", "load", "group", "first_step")
        return Phases(start, ("group", "first_step"), ("save", "stop"), ("switch",))

    def _jobs(self, cluster: Cluster) -> MakeJob:
        return elastic_jobs(self._options, cluster)

"""Stop-free: workers come, go and die while the others train on."""

from __future__ import annotations

from typing import ClassVar

from harness.cluster import Cluster
from harness.contracts.engine import Abilities
from harness.contracts.training import Phases
from systems.elastic.elastic_job import elastic_jobs
from systems.elastic.options import elastic_options
from systems.runtime.driven_backend import DrivenBackend
from systems.runtime.driven_job import MakeJob


class StopFree(DrivenBackend):
    """EDL's mechanism: newcomers prepare beside the training and join it at a step boundary.

    Source: Wu et al., EDL, section 4. Differs: the state can travel in the background instead
    of by a broadcast at the switch (``transfer``); the leader announces the switch in the words
    that all workers exchange in every step, so that no worker can miss it; gradients are
    reduced in an order that does not depend on what happened before; after a worker's death
    the others can go on from the last committed step, exactly (``recovery``).

    The options are the fields of ``ElasticOptions`` and, of ``RuntimeOptions``, those that
    make sense here.
    """

    name: ClassVar[str] = "stop_free"

    def __init__(
        self,
        transfer: str = "background",
        recovery: str = "exact",
        start: str = "cold",
        device: str = "auto",
        bind: str = "127.0.0.1",
        checkpoint_every: int = 0,
        data_order: str = "blocks",
        block_samples: int = 64,
        prefetch_steps: int = 0,
        loader_processes: int = 0,
        heartbeat_s: float = 0.1,
        hang_timeout_s: float = 2.0,
        leader_expiry_s: float = 3.0,
        leader_refresh_s: float = 1.0,
        switch_allowance_s: float = 0.0,
        straggler: str = "off",
        straggler_ratio: float = 1.2,
        straggler_window: int = 10,
        start_timeout_s: float = 300.0,
        stop_timeout_s: float = 120.0,
        adjust_timeout_s: float = 300.0,
        leave_timeout_s: float = 30.0,
        recovery_timeout_s: float = 30.0,
        collective_timeout_s: float = 1800.0,
    ) -> None:
        """Raises ValueError with all options that are out of range."""
        self._options = elastic_options(
            transfer=transfer,
            recovery=recovery,
            start=start,
            device=device,
            bind=bind,
            checkpoint_every=checkpoint_every,
            data_order=data_order,
            block_samples=block_samples,
            prefetch_steps=prefetch_steps,
            loader_processes=loader_processes,
            heartbeat_s=heartbeat_s,
            hang_timeout_s=hang_timeout_s,
            leader_expiry_s=leader_expiry_s,
            leader_refresh_s=leader_refresh_s,
            switch_allowance_s=switch_allowance_s,
            straggler=straggler,
            straggler_ratio=straggler_ratio,
            straggler_window=straggler_window,
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
        """A start's; in a rescale nobody is stopped but for the switch itself."""
        start = ("spawn", "import", "build", "load", "group", "first_step")
        return Phases(start, ("group", "first_step"), ("save", "stop"), ("switch",))

    def _jobs(self, cluster: Cluster) -> MakeJob:
        return elastic_jobs(self._options, cluster)

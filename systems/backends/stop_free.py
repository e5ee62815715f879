"""Stop-free: workers come, go and die while the others train on."""

from __future__ import annotations

from harness.cluster import Cluster
from harness.contracts.engine import Abilities, Change
from harness.contracts.launcher import Launcher
from harness.contracts.training import Phases, Report, TrainingOrder
from systems.elastic.elastic_job import elastic_jobs
from systems.elastic.options import ElasticOptions
from systems.runtime.driver import Driver
from systems.runtime.options import RuntimeOptions


class StopFree:
    """EDL's mechanism: newcomers prepare beside the training and join it at a step boundary.

    Source: Wu et al., EDL, section 4. Differs: the state can travel in the background instead
    of by a broadcast at the switch (``transfer``); the leader announces the switch in the words
    that all workers exchange in every step, so that no worker can miss it; gradients are
    reduced in an order that does not depend on what happened before; after a worker's death
    the others can go on from the last committed step, exactly (``recovery``).

    The options are the fields of ``ElasticOptions`` and, of ``RuntimeOptions``, those that
    make sense here.
    """

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
        heartbeat_s: float = 0.1,
        hang_timeout_s: float = 2.0,
        leader_expiry_s: float = 3.0,
        leader_refresh_s: float = 1.0,
        switch_allowance_s: float = 0.0,
        start_timeout_s: float = 300.0,
        stop_timeout_s: float = 120.0,
        adjust_timeout_s: float = 300.0,
        leave_timeout_s: float = 30.0,
        recovery_timeout_s: float = 30.0,
        collective_timeout_s: float = 1800.0,
    ) -> None:
        """Raises ValueError with all options that are out of range."""
        self.name = "stop_free"
        problems = []
        runtime = RuntimeOptions()
        try:
            runtime = RuntimeOptions(
                start=start,
                device=device,
                bind=bind,
                checkpoint_every=checkpoint_every,
                start_timeout_s=start_timeout_s,
                stop_timeout_s=stop_timeout_s,
                collective_timeout_s=collective_timeout_s,
                reduction="ordered",
                data_order=data_order,
                block_samples=block_samples,
            )
        except ValueError as error:
            problems.append(str(error))
        try:
            self._options = ElasticOptions(
                runtime=runtime,
                transfer=transfer,
                recovery=recovery,
                heartbeat_s=heartbeat_s,
                hang_timeout_s=hang_timeout_s,
                leader_expiry_s=leader_expiry_s,
                leader_refresh_s=leader_refresh_s,
                switch_allowance_s=switch_allowance_s,
                adjust_timeout_s=adjust_timeout_s,
                leave_timeout_s=leave_timeout_s,
                recovery_timeout_s=recovery_timeout_s,
            )
        except ValueError as error:
            problems.append(str(error))
        if problems:
            raise ValueError("\n".join(problems))
        self._driver: Driver | None = None

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

    def open(self, cluster: Cluster, launcher: Launcher) -> None:
        """Make ready.

        Raises:
            RuntimeSetupError: no such address here, or the pre-import failed.
        """
        make_job = elastic_jobs(self._options, cluster)
        self._driver = Driver(self._options.runtime, cluster, launcher, make_job)

    def start(self, change: Change, order: TrainingOrder) -> None:
        """Start a job's workers from scratch."""
        self._running.start(change, order)

    def rescale(self, change: Change) -> None:
        """Go on with the slots and the batch of ``change``; the workers on kept slots stay."""
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

"""torchft: replicas whose membership a lighthouse keeps, and which give newcomers their state."""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import ClassVar, Unpack

from harness.cluster import Cluster
from harness.contracts.abilities import Abilities, Phases
from systems.runtime.driver.backend import DrivenBackend
from systems.runtime.driver.ending import STARTING
from systems.runtime.driver.job_protocol import MakeJob
from systems.runtime.wire.options import RuntimeChoices, RuntimeOptions
from systems.torchft.job import TorchftJob
from systems.torchft.options import WARMTHS, TorchftOptions


class Torchft(DrivenBackend):
    """torchft's fault-tolerant data parallelism: one replica of one worker on each slot.

    Source: torchft 0.2 (github.com/meta-pytorch/torchft), an optional package. Each job has one
    lighthouse. The driver starts and ends replicas. torchft makes a quorum of them in every step,
    reconnects them when it changes, and gives newcomers the state. A step in which a replica
    dies does not count for the others, which compute it again. No replica can sign off: every
    scale-in lasts until the lighthouse misses its heartbeats.

    Differs from torchft's own examples: a step has the job's global batch, and the replicas of the
    quorum share it by their ranks, so no sample is missed or repeated. torchft's sampler gives
    each replica a fixed shard, and loses what a dead replica had left. All gradients travel in one
    sum after the backward pass, and with them the loss and the driver's commands. Servers listen
    only on the host's own address. A replica drops its connections when a sum fails
    (``drop_failed_group``).
    """

    name: ClassVar[str] = "torchft"
    warmths: ClassVar[tuple[str, ...]] = WARMTHS
    """Allowed values of ``start``."""

    def __init__(
        self,
        checkpoint_every: int = 0,
        heartbeat_interval_s: float = 0.1,
        heartbeat_timeout_s: float = 1.0,
        quorum_tick_s: float = 0.1,
        join_timeout_s: float = 60.0,
        quorum_timeout_s: float = 60.0,
        min_replicas: int = 1,
        drop_failed_group: bool = True,
        **choices: Unpack[RuntimeChoices],
    ) -> None:
        """Check the options. Raises ValueError with all those that are out of range."""
        choices.setdefault("collective_timeout_s", 60.0)
        self._options = TorchftOptions(
            runtime=RuntimeOptions(
                checkpoint_every=checkpoint_every, replay_layout=False, **choices
            ),
            heartbeat_interval_s=heartbeat_interval_s,
            heartbeat_timeout_s=heartbeat_timeout_s,
            quorum_tick_s=quorum_tick_s,
            join_timeout_s=join_timeout_s,
            quorum_timeout_s=quorum_timeout_s,
            min_replicas=min_replicas,
            drop_failed_group=drop_failed_group,
        )
        super().__init__(self._options.runtime)

    @property
    def abilities(self) -> Abilities:
        """Any change of the slots and of the batch, but not the same bits."""
        return Abilities(
            rescale=True,
            suspend=True,
            migrate=True,
            change_batch=True,
            share_device=True,
            survive=True,
        )

    @property
    def phases(self) -> Phases:
        """``quorum`` and, with newcomers, ``heal`` are what stops the replicas that stay."""
        return Phases(
            start=STARTING,
            rescale=("quorum", "first_step"),
            suspend=("save", "stop"),
            stopped=("quorum", "heal"),
        )

    def problems(self, cluster: Cluster) -> list[str]:
        """Return that torchft is missing, or replicas would start too warm; empty if neither."""
        found = super().problems(cluster)
        if importlib.util.find_spec("torchft") is None:
            found.append(
                "_target_ needs the package torchft, which is not installed; install it with"
                " pip install 'elastrace[torchft]', or choose another backend"
            )
        return found

    def _jobs(self, cluster: Cluster) -> MakeJob:
        return partial(TorchftJob, self._options, cluster)

"""Virtual threads: a job's logical workers take turns on its slots."""

from __future__ import annotations

from typing import ClassVar, Unpack

from harness.cluster import Cluster
from harness.contracts.abilities import Abilities, Phases, Reference
from systems.backends.plain_ddp_reference import stock_training
from systems.elastic.driver.backend import ElasticBackend, ElasticChoices
from systems.elastic.wire.options import elastic_options
from systems.restart.launch import grouped_jobs
from systems.runtime.driver.ending import restart_phases
from systems.runtime.driver.job_protocol import MakeJob
from systems.runtime.wire.kernels import slot_types
from systems.virtual.levels import LEVELS, level_of

RECONFIGURATIONS = ("stop_free", "checkpoint")


class VirtualThread(ElasticBackend):
    """N logical workers on 1 to N slots, with the bits of stock DistributedDataParallel on N.

    Source: EasyScale (Li et al., SC '23), sections 3.1 to 3.3. N is the job's number of logical
    workers, by default the number of slots that it requests. Its batch, seeds and samples are those
    of N workers whatever its slots are. The paper's mechanism is ``reconfigure=checkpoint``: an
    on-demand checkpoint, and all workers start again. Differs: in addition, virtual workers can
    move between slots during training (``stop_free``), by the mechanism of that backend. Slots of
    one host add gradients in shared memory. After a death, training recovers bitwise from the last
    step that any worker committed. ``level`` is one of the paper's levels of determinism
    (``LEVELS``).
    """

    name: ClassVar[str] = "virtual_thread"
    warmths: ClassVar[tuple[str, ...]] = ("cold", "preimported", "spare")

    def __init__(
        self,
        reconfigure: str = "stop_free",
        level: str = "D1",
        random_states: str = "streams",
        accumulation_steps: int = 1,
        drawn_samples: bool = False,
        executors: int = 1,
        transfer: str = "background",
        recovery: str = "exact",
        switch_allowance_s: float = 0.0,
        **choices: Unpack[ElasticChoices],
    ) -> None:
        """Check the options; raise ValueError with all values that are out of range."""
        problems = []
        if reconfigure not in RECONFIGURATIONS:
            known = ", ".join(RECONFIGURATIONS)
            problems.append(f"reconfigure is {reconfigure!r}; known: {known}")
        chosen = LEVELS["D1"]
        try:
            chosen = level_of(level)
        except ValueError as error:
            problems.append(str(error))
        if not chosen.carries_ranks and reconfigure == "stop_free":
            problems.append(
                f"level is {level!r}, whose bits only a restart loses, but with "
                "reconfigure=stop_free no worker restarts; set reconfigure=checkpoint, or "
                "level=D1"
            )
        if executors > 1 and reconfigure == "stop_free":
            problems.append(
                f"executors is {executors}, but with reconfigure=stop_free every slot has one"
                " process; set reconfigure=checkpoint, or executors=1"
            )
        if choices.get("collectives") == "nccl":
            problems.append(
                "collectives is 'nccl', whose sums have no fixed order, so that the bits of N fixed"
                " workers would be lost; set collectives=gloo, or use backend=stop_free"
            )
        try:
            options = elastic_options(
                transfer=transfer,
                recovery=recovery,
                switch_allowance_s=switch_allowance_s,
                virtual=True,
                random_states=random_states,
                accumulation_steps=accumulation_steps,
                drawn_samples=drawn_samples,
                executors=executors,
                carries_ranks=chosen.carries_ranks,
                common_kernels=chosen.common_kernels,
                **{"data_order": "positions", **choices},
            )
        except ValueError as error:
            problems.append(str(error))
        if problems:
            raise ValueError("\n".join(problems))
        super().__init__(options)
        self._stops = reconfigure == "checkpoint"

    @property
    def abilities(self) -> Abilities:
        """All abilities except a change of the batch, which would be another training."""
        survive = self._options.recovery != "none" and not self._stops
        return Abilities(
            rescale=True,
            suspend=True,
            migrate=True,
            share_device=True,
            survive=survive,
            logical_workers=True,
            drawn_samples=self._runtime.drawn_samples,
        )

    @property
    def phases(self) -> Phases:
        """Phases of a restart or, with ``stop_free``, of a switch."""
        return restart_phases() if self._stops else super().phases

    def warnings(self, cluster: Cluster) -> list[str]:
        """Return a warning if bits depend on the types of slots, though not on their number."""
        types = slot_types(cluster, self._runtime)
        if not self._runtime.carries_ranks or len(types) == 1:
            return []
        return [
            f"level is 'D1', and cluster {cluster.name!r} has slots of {len(types)} types"
            f" ({', '.join(types)}): a job that trains on more than one of them will not have the"
            " bits of fixed workers; set level=D2, or use a cluster of one type"
        ]

    def bitwise(self, cluster: Cluster) -> bool:
        """Return whether bits are kept: from D1 on for slots of one type, with D2 on all slots."""
        return self._runtime.carries_ranks and len(slot_types(cluster, self._runtime)) == 1

    def reference(self, cluster: Cluster) -> Reference:
        """Return stock DistributedDataParallel on one process for each logical worker.

        Raises:
            ValueError: there is no reference with these options, or on these slots.
        """
        return stock_training(self._runtime, cluster)

    def _jobs(self, cluster: Cluster) -> MakeJob:
        return grouped_jobs(self._runtime, cluster) if self._stops else super()._jobs(cluster)

"""Warm restart: all workers stop for a change, but keep their processes and their state."""

from __future__ import annotations

from typing import ClassVar, Unpack

from systems.elastic.driver.backend import ElasticBackend, ElasticChoices
from systems.elastic.wire.options import elastic_options


class WarmRestart(ElasticBackend):
    """Restart without a checkpoint, between stop-resume and stop-free: all workers wait.

    Source: the executor of ElasticFlow (Gu et al., ASPLOS 2023, section 5), as far as it is
    described. A worker that stays keeps its process, its device context and its model. The state is
    handed over in memory. A checkpoint is written only when a job is suspended. Differs: each new
    worker takes the state from one old worker. The implementation is shared with ``stop_free``, so
    that the two differ in one point only. Here training stops when a change is requested; there it
    stops when everything is ready for the change.

    For the old workers, the preparation of new workers is part of ``switch``.
    """

    name: ClassVar[str] = "warm_restart"

    def __init__(self, recovery: str = "none", **choices: Unpack[ElasticChoices]) -> None:
        """Check the options; raise ValueError with all values that are out of range."""
        super().__init__(
            elastic_options(transfer="peer", stops_first=True, recovery=recovery, **choices)
        )

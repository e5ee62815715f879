"""Warm restart: all workers stop for a change, but keep their processes and their state."""

from __future__ import annotations

from typing import ClassVar, Unpack

from systems.elastic.driver.backend import ElasticBackend, ElasticChoices
from systems.elastic.wire.options import elastic_options


class WarmRestart(ElasticBackend):
    """Restart without saving: between stop-resume and stop-free. All workers wait.

    Source: the executor of ElasticFlow (Gu et al., ASPLOS 2023, section 5), as far as it is
    described. A worker that stays keeps its process, its device context and its model. The state is
    handed over in memory. A checkpoint is written only when a job is suspended. Differs: each new
    worker takes the state from one old worker. The machinery is that of ``stop_free``, so that the
    two differ in one thing only. Here training stops when a change is requested; there it stops
    when everything is ready for the change.

    What new workers do is part of ``switch`` for the others.
    """

    name: ClassVar[str] = "warm_restart"

    def __init__(self, recovery: str = "none", **choices: Unpack[ElasticChoices]) -> None:
        """Check the options. Raises ValueError with all those that are out of range."""
        super().__init__(
            elastic_options(transfer="peer", stops_first=True, recovery=recovery, **choices)
        )

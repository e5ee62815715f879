"""Warm restart: all workers stop for a change, but keep their processes and their state."""

from __future__ import annotations

from typing import ClassVar, Unpack

from systems.elastic.elastic_backend import ElasticBackend, ElasticChoices
from systems.elastic.options import elastic_options


class WarmRestart(ElasticBackend):
    """What stands between stop-resume and stop-free: nothing is saved, everybody waits.

    Source: the executor of ElasticFlow (Gu et al., ASPLOS 2023, section 5), as far as it is
    described: a worker that stays keeps its process, its device context and its model; the
    state is handed over in memory; a checkpoint is written only when a job is suspended.
    Differs: newcomers take the state from one old worker each, and the machinery is that of
    ``stop_free``, so that the two differ in one thing alone: here training stops when a change
    is asked for and not when everything is ready for it.

    What newcomers do is part of ``switch`` for the others.
    """

    name: ClassVar[str] = "warm_restart"

    def __init__(self, recovery: str = "none", **choices: Unpack[ElasticChoices]) -> None:
        """Raises ValueError with all options that are out of range."""
        super().__init__(
            elastic_options(transfer="peer", stops_first=True, recovery=recovery, **choices)
        )

"""Stop-free: workers come, go and die while the others train on."""

from __future__ import annotations

from typing import ClassVar, Unpack

from systems.elastic.elastic_backend import ElasticBackend, ElasticChoices
from systems.elastic.options import elastic_options


class StopFree(ElasticBackend):
    """EDL's mechanism: newcomers prepare beside the training and join it at a step boundary.

    Source: Wu et al., EDL, section 4. Differs: the state can travel in the background instead
    of by a broadcast at the switch (``transfer``); the leader announces the switch in the words
    that all workers exchange in every step, so that no worker can miss it; gradients are
    reduced in an order that does not depend on what happened before; after a worker's death
    the others can go on from the last committed step, exactly (``recovery``).

    In a rescale nobody is stopped but for the switch itself.
    """

    name: ClassVar[str] = "stop_free"

    def __init__(
        self,
        transfer: str = "background",
        recovery: str = "exact",
        switch_allowance_s: float = 0.0,
        straggler: str = "off",
        straggler_ratio: float = 1.2,
        straggler_window: int = 10,
        **choices: Unpack[ElasticChoices],
    ) -> None:
        """Raises ValueError with all options that are out of range."""
        super().__init__(
            elastic_options(
                transfer=transfer,
                recovery=recovery,
                switch_allowance_s=switch_allowance_s,
                straggler=straggler,
                straggler_ratio=straggler_ratio,
                straggler_window=straggler_window,
                **choices,
            )
        )

"""Stop-free: workers join, leave and die while the others continue training."""

from __future__ import annotations

from typing import ClassVar, Unpack

from systems.elastic.driver.backend import ElasticBackend, ElasticChoices
from systems.elastic.wire.options import elastic_options


class StopFree(ElasticBackend):
    """EDL's mechanism: new workers prepare during training and join it at a step boundary.

    Source: Wu et al., EDL, section 4. Differs: the state can travel in the background instead of by
    a broadcast at the switch (``transfer``). The leader announces the switch in the data that all
    workers exchange in every step, so that no worker can miss it. Gradients are reduced in an order
    that does not depend on what happened before. After a worker's death the others can continue
    exactly from the last committed step (``recovery``).

    A rescale stops the existing workers only for the switch itself.
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
        """Check the options; raise ValueError with all values that are out of range."""
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

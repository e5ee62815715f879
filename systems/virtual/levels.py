"""How much a job's bits may depend on: EasyScale's levels of determinism. Torch-free.

Source: EasyScale (Li et al., SC '23), section 3.3. D0: two trainings on the same fixed slots are
equal. D1: so are trainings on slots that change in number. D2: so are trainings on slots of
different types; a treatment of kernels, which the paper puts on top of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """What is done for the same bits, beside what D0 does in any case."""

    carries_ranks: bool
    """D1: ranks of virtual workers in the sum, and the layout of its buckets, outlive a restart."""
    common_kernels: bool
    """D2: operators have kernels that all types of slots have."""


LEVELS: Mapping[str, Level] = {
    "D0": Level(carries_ranks=False, common_kernels=False),
    "D1": Level(carries_ranks=True, common_kernels=False),
    "D2": Level(carries_ranks=True, common_kernels=True),
    "D0+D2": Level(carries_ranks=False, common_kernels=True),
    "D1+D2": Level(carries_ranks=True, common_kernels=True),
}
"""By name. D2 alone is short for D1+D2."""


def level_of(name: str) -> Level:
    """The level with this name.

    Raises:
        ValueError: there is none.
    """
    if name not in LEVELS:
        raise ValueError(f"level is {name!r}; known: {', '.join(LEVELS)}")
    return LEVELS[name]

"""EasyScale's levels of determinism: what a job's bits may depend on. The module does not import
torch.

Source: EasyScale (Li et al., SC '23), section 3.3. D0: two trainings on the same fixed slots are
equal. D1: trainings on slots that change in number are equal too. D2: trainings on slots of
different types are equal too. D2 is a treatment of kernels, which the paper adds to either of the
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """Measures for equal bits, in addition to those that D0 always takes."""

    carries_ranks: bool
    """D1: ranks of virtual workers in the sum, and the layout of its buckets, survive a restart."""
    common_kernels: bool
    """D2: operators use kernels that all types of slots have."""


LEVELS: Mapping[str, Level] = {
    "D0": Level(carries_ranks=False, common_kernels=False),
    "D1": Level(carries_ranks=True, common_kernels=False),
    "D2": Level(carries_ranks=True, common_kernels=True),
    "D0+D2": Level(carries_ranks=False, common_kernels=True),
    "D1+D2": Level(carries_ranks=True, common_kernels=True),
}
"""Levels by name. D2 alone is short for D1+D2."""


def level_of(name: str) -> Level:
    """Return the level with this name.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in LEVELS:
        raise ValueError(f"level is {name!r}; known: {', '.join(LEVELS)}")
    return LEVELS[name]

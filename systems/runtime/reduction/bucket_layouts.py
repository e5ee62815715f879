"""The layout of gradient buckets as a part of a job's state.

Source: EasyScale (Li et al., SC '23), section 3.3: at level D1 a checkpoint holds which gradients
follow each other in which bucket, since the last bits of their sums depend on it. Differs: the
paper builds the buckets again from what was saved. Here they follow from the model and torch, and
are laid out before the first step; the saved layout is only compared with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

import torch

from harness.errors import WorkerError

Buckets: TypeAlias = Sequence[Sequence[str]]
"""Names of the parameters of each bucket, in their order there."""
_SHOWN = 3
"""Number of a bucket's names that an error shows."""


class LayoutError(WorkerError, ValueError):
    """Buckets differ from those of the job's state; the text says where, and gives a remedy."""


def described(buckets: Buckets) -> dict[str, Any]:
    """Return the saved form of a layout, which JSON can hold."""
    return {"torch": str(torch.__version__), "buckets": [list(names) for names in buckets]}


def check_layout(saved: Mapping[str, Any], here: Buckets) -> None:
    """Compare the buckets here with those of a state that this worker takes over.

    Args:
        saved: result of ``described`` where the state comes from.
        here: buckets of this worker; empty if nothing depends on them, or before they are laid out.

    Raises:
        LayoutError: they differ.
    """
    there = [list(names) for names in saved["buckets"]]
    if not here or there == [list(names) for names in here]:
        return
    made, own = saved["torch"], str(torch.__version__)
    hint = "go on with the options and the code that it was begun with"
    if made != own:
        hint = f"it is of torch {made}, and this is {own}: go on with that"
    raise LayoutError(
        f"the job's gradient buckets are not those of this worker ({_difference(there, here)}), so"
        f" that sums would have other last bits; {hint}, or start the job from scratch"
    )


def _difference(there: Buckets, here: Buckets) -> str:
    """Describe the first bucket that differs."""
    if not there:
        return "the job's state has no layout"
    number, (mine, theirs) = next(
        (number, pair)
        for number, pair in enumerate(zip_longest(here, there, fillvalue=()))
        if list(pair[0]) != list(pair[1])
    )
    at = next((n for n, (a, b) in enumerate(zip_longest(mine, theirs)) if a != b), 0)
    return (
        f"bucket {number} of {len(there)} and {len(here)}: {_words(theirs, at)} in the job's,"
        f" {_words(mine, at)} here"
    )


def _words(names: Sequence[str], at: int) -> str:
    """Describe a bucket's parameters from a place on."""
    shown = list(names[at : at + _SHOWN])
    if not shown:
        return "no more parameters" if names else "no such bucket"
    rest = len(names) - at - len(shown)
    begin = "" if at == 0 else f"from parameter {at} on "
    return begin + ", ".join(shown) + (f" and {rest} more" if rest else "")

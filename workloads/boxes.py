"""Boxes of a detector: overlap, suppression of duplicates, average precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

MATCH_IOU = 0.5
"""Least overlap of a correct box (PASCAL VOC 2007, section 4.2)."""
_SUPPRESS_IOU = 0.45
_LEAST_SCORE = 0.01
_MOST_BOXES = 100


@dataclass(frozen=True, slots=True)
class Found:
    """One box that the detector predicts."""

    picture: int
    score: float
    box: torch.Tensor


def overlaps(boxes: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Return the intersection over union, (n, m), of every box in (n, 4) with every box in (m, 4).

    Boxes are centre and size; leading dimensions broadcast.
    """
    low = torch.maximum(
        (boxes[..., :2] - boxes[..., 2:] / 2)[..., :, None, :],
        (others[..., :2] - others[..., 2:] / 2)[..., None, :, :],
    )
    high = torch.minimum(
        (boxes[..., :2] + boxes[..., 2:] / 2)[..., :, None, :],
        (others[..., :2] + others[..., 2:] / 2)[..., None, :, :],
    )
    shared = (high - low).clamp(min=0).prod(dim=-1)
    areas = boxes[..., 2:].prod(dim=-1)[..., :, None] + others[..., 2:].prod(dim=-1)[..., None, :]
    return shared / (areas - shared).clamp(min=1e-9)


def strongest(boxes: torch.Tensor, scores: torch.Tensor) -> list[int]:
    """Return the indices of boxes that overlap no stronger box too much, strongest first."""
    order = scores.argsort(descending=True, stable=True)
    order = order[scores[order] >= _LEAST_SCORE][:_MOST_BOXES]
    hides = (overlaps(boxes[order], boxes[order]) > _SUPPRESS_IOU).numpy()
    hidden = np.zeros(len(order), dtype=np.bool_)
    kept: list[int] = []
    for place, box in enumerate(order.tolist()):
        if not hidden[place]:
            kept.append(box)
            hidden |= hides[place]
    return kept


def _matches(found: Sequence[Found], wanted: Sequence[torch.Tensor]) -> dict[int, tuple[int, int]]:
    """Return the picture and the best true box of each found box, if the two overlap enough."""
    by_picture: dict[int, list[int]] = {}
    for place, each in enumerate(found):
        by_picture.setdefault(each.picture, []).append(place)
    matches = {}
    for picture, places in by_picture.items():
        if len(wanted[picture]):
            shares = overlaps(torch.stack([found[place].box for place in places]), wanted[picture])
            values, which = shares.max(dim=1)
            for place, value, best in zip(places, values.tolist(), which.tolist(), strict=True):
                if value >= MATCH_IOU:
                    matches[place] = (picture, best)
    return matches


def average_precision(found: Sequence[Found], wanted: Sequence[torch.Tensor]) -> float | None:
    """Return the area under precision over recall of one class; None if no picture has the class.

    A box is correct if its best match is a true box of the picture that no stronger box has
    matched.

    Args:
        found: boxes of all pictures.
        wanted: the true boxes of each picture, (m, 4).
    """
    total = sum(len(boxes) for boxes in wanted)
    if not total:
        return None
    if not found:
        return 0.0
    matches = _matches(found, wanted)
    claimed: set[tuple[int, int]] = set()
    right: list[float] = []
    for place in sorted(range(len(found)), key=lambda place: -found[place].score):
        match = matches.get(place)
        is_right = match is not None and match not in claimed
        if match is not None:
            claimed.add(match)
        right.append(float(is_right))
    hits = torch.tensor(right).cumsum(0)
    recall = hits / total
    precision = hits / torch.arange(1, len(right) + 1)
    best_later = precision.flip(0).cummax(0).values.flip(0)
    steps = torch.diff(recall, prepend=torch.zeros(1))
    return float((steps * best_later).sum())

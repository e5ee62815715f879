"""Boxes of a detector: overlap, suppression of the same thing twice, average precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

MATCH_IOU = 0.5
"""Overlap from which a box is right (PASCAL VOC 2007, section 4.2)."""
_SUPPRESS_IOU = 0.45
_LEAST_SCORE = 0.01
_MOST_BOXES = 100


@dataclass(frozen=True, slots=True)
class Found:
    """One box that the detector claims."""

    picture: int
    score: float
    box: torch.Tensor


def overlaps(boxes: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Intersection over union of every box (n, 4) with every other (m, 4); (n, m).

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
    """Which boxes stay when those that overlap a stronger one go; strongest first."""
    order = scores.argsort(descending=True, stable=True)
    order = order[scores[order] >= _LEAST_SCORE][:_MOST_BOXES]
    kept: list[int] = []
    while len(order):
        first, rest = order[0], order[1:]
        kept.append(int(first))
        order = rest[overlaps(boxes[first : first + 1], boxes[rest])[0] <= _SUPPRESS_IOU]
    return kept


def average_precision(found: Sequence[Found], wanted: Sequence[torch.Tensor]) -> float | None:
    """Area under precision over recall of one class; None where no picture has it.

    A box is right if it overlaps one of the picture's that no stronger box has claimed.

    Args:
        found: boxes of all pictures.
        wanted: the right boxes of each picture, (m, 4).
    """
    total = sum(len(boxes) for boxes in wanted)
    if not total:
        return None
    claimed = [torch.zeros(len(boxes), dtype=torch.bool) for boxes in wanted]
    right: list[float] = []
    for each in sorted(found, key=lambda one: -one.score):
        truth = wanted[each.picture]
        best = -1
        if len(truth):
            overlap = overlaps(each.box[None], truth)[0]
            best = int(overlap.argmax())
            if overlap[best] < MATCH_IOU or claimed[each.picture][best]:
                best = -1
        if best >= 0:
            claimed[each.picture][best] = True
        right.append(float(best >= 0))
    if not right:
        return 0.0
    hits = torch.tensor(right).cumsum(0)
    recall = hits / total
    precision = hits / torch.arange(1, len(right) + 1)
    best_later = precision.flip(0).cummax(0).values.flip(0)
    steps = torch.diff(recall, prepend=torch.zeros(1))
    return float((steps * best_later).sum())

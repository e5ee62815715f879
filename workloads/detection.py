"""YOLOv3: detection of objects in pictures, with their boxes and classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from harness.contracts.workload import Batch
from workloads.boxes import Found, average_precision, overlaps, strongest
from workloads.darknet import ANCHORS_A_SCALE, YoloV3Network
from workloads.data.base import DataSet
from workloads.data.boxes import NEEDS_ROOT, open_boxes
from workloads.sized_workload import SizedWorkload
from workloads.training import Recipe, evaluating, held_out_batches

_ANCHORS = (
    ((116, 90), (156, 198), (373, 326)),
    ((30, 61), (62, 45), (59, 119)),
    ((10, 13), (16, 30), (33, 23)),
)
"""Sizes of the anchors, in pixels of the paper's pictures, from coarse to fine scale (section
2.3)."""
_ANCHOR_SIDE = 416
_IGNORED_IOU = 0.5
"""Overlap with an object above which a prediction that is not matched to it does not count as
wrong."""
_MOST_GROWTH = 4.0
"""Largest logarithm of a box's size over its anchor's."""


@dataclass(frozen=True, slots=True)
class YoloSize:
    """One size of the detector."""

    width: int
    repeats: tuple[int, ...]
    image_size: int
    """Side in pixels, a multiple of 32."""
    synthetic: tuple[int, int]
    """Samples and classes of the synthetic set."""
    recipe: Recipe


class YOLOv3(SizedWorkload[YoloSize]):
    """Detection at three scales with nine anchors: Redmon and Farhadi, arXiv:1804.02767.

    Size ``paper`` has Darknet-53 at 416 x 416. Differs: no pre-training of the backbone, since
    weights cannot be shipped; pictures of one size; smaller sizes have fewer residual blocks.
    """

    name = "yolov3"
    data_sets = NEEDS_ROOT
    sizes: Mapping[str, YoloSize] = {
        "tiny": YoloSize(8, (1, 1, 1, 1, 1), 64, (8_192, 6), Recipe(2e-3, warmup_steps=20)),
        "small": YoloSize(16, (1, 1, 2, 2, 1), 128, (16_551, 20), Recipe(1e-3, warmup_steps=100)),
        "paper": YoloSize(32, (1, 2, 8, 8, 4), 416, (16_551, 20), Recipe(5e-4, warmup_steps=1_000)),
    }

    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """Return a data set of pictures with boxes, in the form of ``workloads.data.boxes``."""
        return open_boxes(data, root, self._plan.image_size, self._plan.synthetic, seed)

    def _build(self) -> torch.nn.Module:
        return YoloV3Network(self._plan.width, self._plan.repeats, self._data.num_labels)

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return Adam: without a pre-trained backbone, the paper's SGD starts too slowly."""
        return torch.optim.Adam(model.parameters(), lr=self._recipe.learning_rate)

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the paper's loss, averaged over pictures: place, size, confidence, and class."""
        best = _best_anchors(batch["boxes"])
        parts = [
            _scale_loss(raw, number, best, batch)
            for number, raw in enumerate(model(batch["image"]))
        ]
        return torch.stack(parts).sum() / len(batch["image"])

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return the mean over classes of the average precision at half overlap, and the loss."""
        num_classes, total, loss = self._data.num_labels, 0, 0.0
        found: list[list[Found]] = [[] for _ in range(num_classes)]
        wanted: list[list[torch.Tensor]] = [[] for _ in range(num_classes)]
        with evaluating(model):
            for batch in held_out_batches(model, self._data.held_out, self._evaluation_samples):
                loss += float(self.loss(model, batch)) * len(batch["image"])
                boxes, scores = _detections(model(batch["image"]))
                for row in range(len(boxes)):
                    for kind in range(num_classes):
                        truth = batch["boxes"][row][batch["classes"][row] == kind]
                        wanted[kind].append(truth.cpu())
                        found[kind] += [
                            Found(total + row, float(scores[row, place, kind]), boxes[row, place])
                            for place in strongest(boxes[row], scores[row, :, kind])
                        ]
                total += len(boxes)
        each = [
            value
            for claims, truths in zip(found, wanted, strict=True)
            if (value := average_precision(claims, truths)) is not None
        ]
        return {
            "mean_average_precision": sum(each) / len(each),
            "loss": loss / total,
            "evaluated_samples": float(total),
        }


def _anchors(scale: int | None, like: torch.Tensor) -> torch.Tensor:
    """Return widths and heights of one scale's anchors, or of all, as shares of the side."""
    chosen = _ANCHORS if scale is None else (_ANCHORS[scale],)
    return like.new_tensor(chosen).flatten(0, 1) / _ANCHOR_SIDE


def _best_anchors(boxes: torch.Tensor) -> torch.Tensor:
    """Return the index, of nine anchors, that fits the shape of each object best; (n, things)."""
    sizes = torch.cat([torch.zeros_like(boxes[..., 2:]), boxes[..., 2:]], dim=-1)
    anchors = _anchors(None, boxes)
    anchors = torch.cat([torch.zeros_like(anchors), anchors], dim=-1)
    return overlaps(sizes.flatten(0, 1), anchors).argmax(dim=1).view(boxes.shape[:2])


def _decoded(raw: torch.Tensor, scale: int) -> torch.Tensor:
    """Return the boxes of one scale; (n, 3, side, side, 4)."""
    height, width = raw.shape[2:4]
    rows = torch.arange(height, device=raw.device).view(1, 1, height, 1)
    columns = torch.arange(width, device=raw.device).view(1, 1, 1, width)
    size = raw[..., 2:4].clamp(max=_MOST_GROWTH).exp() * _anchors(scale, raw).view(1, -1, 1, 1, 2)
    return torch.stack(
        [
            (raw[..., 0].sigmoid() + columns) / width,
            (raw[..., 1].sigmoid() + rows) / height,
            size[..., 0],
            size[..., 1],
        ],
        dim=-1,
    )


def _scale_loss(raw: torch.Tensor, scale: int, best: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return the sum over the pictures of one scale's part of the loss."""
    height, width = raw.shape[2:4]
    boxes, classes = batch["boxes"], batch["classes"]
    there = classes >= 0
    own = there & (best // ANCHORS_A_SCALE == scale)
    picture, thing = own.nonzero(as_tuple=True)
    target = boxes[picture, thing]
    anchor = best[picture, thing] % ANCHORS_A_SCALE
    column = (target[:, 0] * width).long().clamp(max=width - 1)
    row = (target[:, 1] * height).long().clamp(max=height - 1)
    with torch.no_grad():
        overlap = overlaps(_decoded(raw, scale).flatten(1, 3), boxes)
        overlap = (overlap * there[:, None, :]).amax(dim=2).view(raw.shape[:4])
        wanted = torch.zeros_like(overlap)
        wanted[picture, anchor, row, column] = 1.0
        counts = (overlap <= _IGNORED_IOU) | (wanted == 1.0)
    confidence = functional.binary_cross_entropy_with_logits(
        raw[..., 4], wanted, weight=counts.float(), reduction="sum"
    )
    mine = raw[picture, anchor, row, column]
    weight = (2.0 - target[:, 2] * target[:, 3])[:, None]
    offset = torch.stack([target[:, 0] * width - column, target[:, 1] * height - row], dim=1)
    place = functional.binary_cross_entropy_with_logits(
        mine[:, :2], offset, weight=weight.expand(-1, 2), reduction="sum"
    )
    growth = (target[:, 2:] / _anchors(scale, raw)[anchor]).log().clamp(-_MOST_GROWTH, _MOST_GROWTH)
    size = (weight * (mine[:, 2:4] - growth) ** 2).sum() / 2
    kinds = functional.one_hot(classes[picture, thing], mine.shape[1] - 5).to(mine.dtype)
    what = functional.binary_cross_entropy_with_logits(mine[:, 5:], kinds, reduction="sum")
    return confidence + place + size + what


def _detections(outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return all boxes (n, boxes, 4) and their scores by class (n, boxes, classes), on the CPU."""
    boxes = [_decoded(raw, scale).flatten(1, 3) for scale, raw in enumerate(outputs)]
    scores = [(raw[..., 4:5].sigmoid() * raw[..., 5:].sigmoid()).flatten(1, 3) for raw in outputs]
    return torch.cat(boxes, dim=1).cpu(), torch.cat(scores, dim=1).cpu()

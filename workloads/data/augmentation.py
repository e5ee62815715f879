"""Augmentation of training samples from epoch to epoch, without any random state.

Each variation is a function of the seed and of the *draw*, one number for epoch and sample id. A
sample of a given epoch is therefore the same for every worker, in any order and any number of
times. A rescale in the middle of an epoch changes no sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from harness.contracts.workload import Batch
from workloads.data.counter import random_integers
from workloads.data.words import FIRST_WORD, PADDING

Draws: TypeAlias = npt.NDArray[np.int64]
Augmented: TypeAlias = Callable[[Batch, int, Draws], Batch]
"""Function that varies a batch, given a seed and the draw of each sample; shapes stay."""

_ONE_WORD_IN = 16
_MASKED_BANDS = 8
_MASKED_TIME = 16


def shifted(batch: Batch, seed: int, draws: Draws) -> Batch:
    """Return pictures moved by up to an eighth of their side each way, with 0 at the new edges.

    Source: He et al., CVPR '16, section 4.2 (four pixels of 32).
    """
    images = batch["image"]
    side = images.shape[-1]
    most = side // 8
    padded = torch.nn.functional.pad(images, [most] * 4)
    corners = random_integers(seed, "shift", draws, 2, 2 * most + 1).tolist()
    moved = [
        picture[:, top : top + side, left : left + side]
        for picture, (top, left) in zip(padded, corners, strict=True)
    ]
    return {**batch, "image": torch.stack(moved)}


def shifted_and_mirrored(batch: Batch, seed: int, draws: Draws) -> Batch:
    """Return pictures moved, about half of them also mirrored left to right."""
    batch = shifted(batch, seed, draws)
    mirrored = _every_other(seed, draws)[:, None, None, None]
    return {**batch, "image": torch.where(mirrored, batch["image"].flip(-1), batch["image"])}


def mirrored_with_boxes(batch: Batch, seed: int, draws: Draws) -> Batch:
    """Return pictures with their boxes, about half of them mirrored left to right."""
    mirrored = _every_other(seed, draws)
    image, boxes = batch["image"], batch["boxes"].clone()
    there = (batch["classes"] >= 0) & mirrored[:, None]
    boxes[..., 0] = torch.where(there, 1 - boxes[..., 0], boxes[..., 0])
    image = torch.where(mirrored[:, None, None, None], image.flip(-1), image)
    return {**batch, "image": image, "boxes": boxes}


def masked_spectrum(batch: Batch, seed: int, draws: Draws) -> Batch:
    """Return spectra without one band of frequencies and one stretch of time.

    The masks cover at most an eighth of the bands and a sixteenth of the recorded frames. Source:
    Park et al., Interspeech '19, section 2, without their warping of time.
    """
    spectrum = batch["spectrum"]
    num_frames = batch["num_frames"].numpy()
    masks = []
    for name, length, most, total in (
        ("band", spectrum.shape[1], spectrum.shape[1] // _MASKED_BANDS, spectrum.shape[1]),
        ("time", num_frames, num_frames // _MASKED_TIME, spectrum.shape[2]),
    ):
        drawn = random_integers(seed, f"masked {name}", draws, 2, 1 << 30)
        width = drawn[:, 0] % (most + 1)
        begin = drawn[:, 1] % (length - width + 1)
        places = np.arange(total)
        masks.append((places >= begin[:, None]) & (places < (begin + width)[:, None]))
    masked = masks[0][:, :, None] | masks[1][:, None, :]
    return {**batch, "spectrum": spectrum.masked_fill(torch.from_numpy(masked), 0.0)}


def blanked(name: str) -> Augmented:
    """Return a function that blanks about one word in sixteen, in the tensor called ``name``.

    Words that mark the beginning or end of a text stay, and so does the answer to a question.
    Source: Bowman et al., CoNLL '16, section 3.1 ("word dropout").
    """

    def augmented(batch: Batch, seed: int, draws: Draws) -> Batch:
        tokens = batch[name]
        length = tokens.shape[1]
        drawn = random_integers(seed, "blank", draws, length, _ONE_WORD_IN)
        blank = torch.from_numpy(drawn == 0) & (tokens >= FIRST_WORD)
        if "start" in batch:
            place = torch.arange(length)
            blank &= (place < batch["start"][:, None]) | (place > batch["end"][:, None])
        return {**batch, name: tokens.masked_fill(blank, PADDING)}

    return augmented


def _every_other(seed: int, draws: Draws) -> torch.Tensor:
    return torch.from_numpy(random_integers(seed, "mirror", draws, 1, 2)[:, 0] == 1)

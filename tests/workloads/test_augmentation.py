"""What each kind of augmentation does to its samples, and what it leaves alone."""

import numpy as np
import pytest
import torch

from workloads.data.augmentation import (
    blanked,
    masked_spectrum,
    mirrored_with_boxes,
    shifted,
    shifted_and_mirrored,
)
from workloads.data.words import FIRST_WORD, PADDING

DRAWS = np.arange(400)


def pictures(count, side=16):
    rng = torch.Generator().manual_seed(1)
    return torch.rand(count, 3, side, side, generator=rng) + 1


def is_moved(before, after, most):
    """How a picture was moved, if it was; what came in is 0."""
    side = before.shape[-1]
    padded = torch.nn.functional.pad(before, [most] * 4)
    return [
        (top - most, left - most)
        for top in range(2 * most + 1)
        for left in range(2 * most + 1)
        if padded[:, top : top + side, left : left + side].equal(after)
    ]


def test_pictures_are_moved_by_up_to_an_eighth_of_their_side():
    images = pictures(len(DRAWS))
    after = shifted({"image": images, "label": DRAWS}, 0, DRAWS)
    assert after["label"] is DRAWS
    moves = [is_moved(*pair, most=2) for pair in zip(images, after["image"], strict=True)]
    assert all(len(found) == 1 for found in moves)
    assert {found[0] for found in moves} == {(y, x) for y in range(-2, 3) for x in range(-2, 3)}


def test_every_other_picture_is_mirrored():
    images = pictures(1).expand(len(DRAWS), -1, -1, -1)
    after = shifted_and_mirrored({"image": images}, 0, DRAWS)["image"]
    num_mirrored = 0
    for before, one in zip(images, after, strict=True):
        straight, mirrored = is_moved(before, one, 2), is_moved(before.flip(-1), one, 2)
        assert len(straight) + len(mirrored) == 1
        num_mirrored += len(mirrored)
    assert 150 < num_mirrored < 250


def test_boxes_are_mirrored_with_their_picture():
    images = pictures(len(DRAWS), 8)
    boxes = torch.tensor([[0.25, 0.5, 0.2, 0.4], [0.0, 0.0, 0.0, 0.0]]).expand(len(DRAWS), 2, 4)
    classes = torch.tensor([[3, -1]]).expand(len(DRAWS), 2)
    after = mirrored_with_boxes({"image": images, "boxes": boxes, "classes": classes}, 0, DRAWS)
    mirrored = after["boxes"][:, 0, 0] == 0.75
    assert 150 < mirrored.sum() < 250
    assert after["image"][mirrored].equal(images[mirrored].flip(-1))
    assert after["image"][~mirrored].equal(images[~mirrored])
    assert after["boxes"][~mirrored].equal(boxes[~mirrored])
    assert after["boxes"][:, 0, 1:].equal(boxes[:, 0, 1:])
    assert not after["boxes"][:, 1].any()  # there is no thing


def test_one_band_and_one_stretch_of_time_are_masked():
    num_frames = torch.tensor([32, 64] * (len(DRAWS) // 2))
    batch = {"spectrum": torch.ones(len(DRAWS), 16, 64), "num_frames": num_frames}
    masked = masked_spectrum(batch, 0, DRAWS)["spectrum"] == 0
    bands, times = masked.all(dim=2), masked.all(dim=1)
    assert masked.equal(bands[:, :, None] | times[:, None, :])
    assert set(bands.sum(dim=1).tolist()) == {0, 1, 2}
    assert set(times[::2].sum(dim=1).tolist()) == {0, 1, 2}
    assert set(times[1::2].sum(dim=1).tolist()) == {0, 1, 2, 3, 4}
    assert not times[::2, 32:].any()  # nothing was recorded there
    for mask in (bands, times):
        starts = mask.int().diff(dim=1, prepend=torch.zeros(len(DRAWS), 1, dtype=torch.int)) == 1
        assert starts.sum(dim=1).max() == 1


@pytest.mark.parametrize("is_asked", [False, True])
def test_one_word_in_sixteen_is_blank_and_never_an_answer(is_asked):
    tokens = torch.full((len(DRAWS), 32), FIRST_WORD + 5)
    tokens[:, 0] = FIRST_WORD - 1
    batch = {"tokens": tokens}
    if is_asked:
        batch |= {"start": torch.tensor([4, 8] * 200), "end": torch.tensor([6, 8] * 200)}
    after = blanked("tokens")(batch, 0, DRAWS)["tokens"]
    is_blank = after == PADDING
    assert after[~is_blank].equal(tokens[~is_blank])
    assert not is_blank[:, 0].any()
    assert 0.05 < is_blank[:, 1:].float().mean() < 0.075
    is_answer = is_blank[::2, 4:7].any() or is_blank[1::2, 8].any()
    assert bool(is_answer) != is_asked


@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_drawn_depends_on_seed_and_draw_alone(seed):
    images = pictures(3)
    draws = np.array([7, 10**9, 12])
    whole = shifted_and_mirrored({"image": images}, seed, draws)["image"]
    for place in range(3):
        alone = slice(place, place + 1)
        assert shifted_and_mirrored({"image": images[alone]}, seed, draws[alone])["image"].equal(
            whole[alone]
        )
    assert not whole.equal(shifted_and_mirrored({"image": images}, seed + 1, draws)["image"])
    assert not whole.equal(shifted_and_mirrored({"image": images}, seed, draws + 1)["image"])

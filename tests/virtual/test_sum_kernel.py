"""The C code that adds gradients up gives the bits of torch's own operations."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.runtime.reduction.ordered import BucketLayout, Places
from systems.virtual import sum_kernel
from systems.virtual.running_sum import RunningSum
from systems.virtual.small_parameters import is_small
from systems.virtual.sum_kernel import CompiledPieces, Piece, TorchPieces, pieces_of
from tests.examples import examples

ODD = (0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, -3e-39, 1.2e-38, 3.4e38)
"""Values whose product with 1/N is rounded in another way, or not at all."""

compiled = pytest.mark.skipif(
    sum_kernel.load() is None, reason="no compiler was there when this was installed"
)


def drawn(rng, count):
    """Gradients over all orders of magnitude, with odd ones among them."""
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-44, 38, count)
    odd = rng.random(count) < 0.1
    values[odd] = rng.choice(ODD, int(odd.sum()))
    return torch.from_numpy(values.astype(np.float32))


def sums(kind, sizes, num_workers, seed):
    """The bits of the sums of all gradients, one piece each; those of all NaN are the same here."""
    rng = np.random.default_rng(seed)
    pieces = []
    for number, size in enumerate(sizes):
        first = int(rng.integers(num_workers))
        kept = torch.empty((num_workers - 1 - first, size))
        pieces.append(Piece(number, 1, 1 + size, first, torch.zeros(size), kept))
    own = kind(pieces, num_workers)
    for worker in reversed(range(num_workers)):
        own.take([drawn(rng, size + 2) for size in sizes], worker)
    totals = [torch.where(piece.total.isnan(), torch.nan, piece.total) for piece in pieces]
    return [total.view(torch.int32).tolist() for total in totals]


@compiled
@settings(max_examples=examples(60), deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 3, 64, 2047, 2048, 2049, 5000]), min_size=1, max_size=4),
    num_workers=st.integers(1, 7),
    seed=st.integers(0, 10_000),
)
def test_both_give_the_same_bits(sizes, num_workers, seed):
    kernel = sum_kernel.load()
    assert sums(
        lambda pieces, count: CompiledPieces(kernel, pieces, count), sizes, num_workers, seed
    ) == sums(TorchPieces, sizes, num_workers, seed)


def test_a_piece_longer_than_a_block_is_added_up_as_a_whole():
    """By torch block by block, in the order 1, 0, 2."""
    size = sum_kernel.BLOCK_ELEMENTS + 7
    total = torch.zeros(size)
    pieces = TorchPieces([Piece(0, 0, size, 1, total, torch.empty((1, size)))], 3)
    gradients = [torch.randn(size) for _ in range(3)]
    for worker in (2, 1, 0):
        pieces.take([gradients[worker]], worker)
    scaled = [gradient * (1.0 / 3.0) for gradient in gradients]
    assert torch.equal(total, scaled[1] + scaled[0] + scaled[2])


def test_what_is_not_float32_is_added_up_by_torch():
    piece = Piece(0, 0, 2, 0, torch.zeros(2, dtype=torch.float64), torch.empty((0, 2)))
    assert isinstance(pieces_of([piece], 1), TorchPieces)


def running_sum(parameter):
    """Of one worker and one parameter."""
    place = Places((parameter,), (parameter.size(),), (parameter.stride(),), (0,))
    layout = BucketLayout((0,), parameter.numel(), torch.float32)
    return RunningSum([layout], [place], 1)


def test_a_small_parameter_without_a_part_in_the_last_loss_is_missing():
    """Though earlier micro-batches of the turn gave it a gradient."""
    parameter = torch.nn.Parameter(torch.ones(3))
    running = running_sum(parameter)
    parameter.sum().backward()
    running.begin_worker(0)
    assert running.end_worker() == {id(parameter)}
    running.begin_worker(0)
    parameter.sum().backward()
    assert running.end_worker() == set()
    assert torch.equal(running.gradients[0][0], torch.full((3,), 2.0))


@pytest.mark.parametrize("is_strided", [False, True])
@pytest.mark.parametrize("side", [4, 256])
def test_gradients_may_lie_in_memory_in_another_way_than_their_parameter(side, is_strided):
    """Of small parameters and of large ones."""
    parameter = torch.nn.Parameter(torch.zeros(side, side))
    running = running_sum(parameter)
    gradient = torch.arange(float(side * side)).view(side, side)
    if is_strided:
        gradient = gradient.t()
    running.begin_worker(0)
    parameter.grad = gradient
    if not is_small(parameter):
        running.take(parameter)
    assert running.end_worker() == set()
    assert torch.equal(running.gradients[0][0], gradient)

"""Sums made by hand are those of gloo's ring, bit for bit."""

import random
import threading
from datetime import timedelta
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from harness.machine.gloo_ring import ring_chunks
from systems.virtual.ordered_sum import OrderedSum, part_of, plan_blocks

SIZES = (1, 2, 3, 7, 8, 17, 100, 1000, 262_145, 786_433)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
TIMEOUT = timedelta(seconds=60)


def wild(numel, dtype, seed):
    """Numbers of very different sizes: every order of addition gives other bits."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(numel, generator=generator)
    return (numbers * torch.exp(3 * torch.randn(numel, generator=generator))).to(dtype)


def by_gloo(terms):
    """For each tensor of the first worker, the sum with those of the others, by real groups."""
    store, results, failures = dist.HashStore(), {}, []

    def work(rank):
        try:
            group = dist.ProcessGroupGloo(store, rank, len(terms), TIMEOUT)
            for tensor in terms[rank]:
                group.allreduce([tensor], dist.AllreduceOptions()).wait()
            results[rank] = terms[rank]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(terms))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return results[0]


def same_bits(one, other):
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.parametrize(
    "num_workers", [2, 3, 4, *(pytest.param(n, marks=pytest.mark.long) for n in (5, 8, 12))]
)
def test_sums_have_the_bits_of_gloos_ring(num_workers):
    sizes = (*SIZES, random.Random(num_workers).randrange(2_000_000))
    shapes = [(size, dtype) for size in sizes for dtype in DTYPES]
    terms = [
        [wild(size, dtype, 100 * case + rank) for case, (size, dtype) in enumerate(shapes)]
        for rank in range(num_workers)
    ]
    copies = [[tensor.clone() for tensor in own] for own in terms]
    expected = by_gloo(terms)
    totals = [torch.empty_like(tensor) for tensor in expected]
    buckets = [(size, dtype.itemsize) for size, dtype in shapes]
    for part in range(3):
        OrderedSum(plan_blocks(buckets, num_workers, part, 3), copies, totals).run()
    wrong = [s for s, a, b in zip(shapes, totals, expected, strict=True) if not same_bits(a, b)]
    assert not wrong


def test_the_order_matters():
    terms = [[wild(1000, torch.float32, rank)] for rank in range(3)]
    plain = terms[0][0] + terms[1][0] + terms[2][0]
    assert not same_bits(by_gloo(terms)[0], plain)


@given(st.integers(1, 5000), st.sampled_from([2, 4, 8]), st.integers(1, 9))
def test_chunks_cover_a_tensor_once_with_every_worker_in_each(numel, element_bytes, num_workers):
    chunks = ring_chunks(numel, element_bytes, num_workers)
    assert chunks[0].start == 0
    assert chunks[-1].stop == numel
    assert all(one.stop == other.start for one, other in pairwise(chunks))
    assert all(sorted(chunk.order) == list(range(num_workers)) for chunk in chunks)


@given(st.integers(1, 5000), st.integers(1, 9))
def test_parts_cover_a_tensor_once(numel, num_parts):
    cuts = [part_of(numel, part, num_parts) for part in range(num_parts)]
    assert cuts[0][0] == 0
    assert cuts[-1][1] == numel
    assert all(one[1] == other[0] for one, other in pairwise(cuts))

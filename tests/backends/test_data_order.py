"""Positions, shares and seeds."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems.runtime.data_order import DataOrder, share, step_seed


@given(
    seed=st.integers(0, 2**40),
    num_samples=st.integers(1, 60),
    cuts=st.lists(st.integers(0, 200), min_size=1, max_size=12),
)
def test_ids_do_not_depend_on_how_they_are_asked_for(seed, num_samples, cuts):
    cuts = [0, *sorted(cuts)]
    whole = DataOrder(seed, num_samples).ids(0, cuts[-1])
    order = DataOrder(seed, num_samples)
    pieces = [order.ids(a, b) for a, b in pairwise(cuts)]
    assert [sample for piece in pieces for sample in piece] == whole
    for start in range(0, len(whole) - num_samples + 1, num_samples):
        assert sorted(whole[start : start + num_samples]) == list(range(num_samples))


def test_epochs_and_seeds_differ_and_going_back_gives_the_same():
    order = DataOrder(3, 50)
    first, second = order.ids(0, 50), order.ids(50, 100)
    assert first != second
    order.ids(500, 550)
    assert order.ids(0, 50) == first
    assert DataOrder(4, 50).ids(0, 50) != first


@given(batch=st.integers(1, 500), num_workers=st.integers(1, 40))
def test_shares_cover_the_batch_in_rank_order_and_differ_by_one_at_most(batch, num_workers):
    if batch < num_workers:
        with pytest.raises(ValueError, match="cannot be shared"):
            share(batch, num_workers, 0)
        return
    shares = [share(batch, num_workers, rank) for rank in range(num_workers)]
    assert shares[0][0] == 0
    assert shares[-1][1] == batch
    assert all(a[1] == b[0] for a, b in pairwise(shares))
    sizes = [stop - start for start, stop in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def test_every_worker_and_step_has_a_seed_of_its_own():
    seeds = {step_seed(s, t, r) for s in range(3) for t in range(100) for r in range(5)}
    assert len(seeds) == 1500
    assert all(0 <= seed < 2**63 for seed in seeds)
    # A value that must never change, or no old run could be repeated.
    assert step_seed(0, 0, 0) == STEP_SEED_0


STEP_SEED_0 = 8030096487280224385


def test_an_epoch_without_samples_is_refused():
    with pytest.raises(ValueError, match="at least 1 sample"):
        DataOrder(0, 0)

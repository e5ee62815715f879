"""Positions, shares and seeds."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems.runtime.data.make_order import data_order
from systems.runtime.data.position_order import PositionOrder
from systems.runtime.data.step_seed import step_seed
from systems.runtime.wire.data_order import share


def first(order, count):
    """The first ids of an order, asked for at once."""
    return order.ids(order.plan(order.initial(), 1, count).parts[0])


@given(
    seed=st.integers(0, 2**40),
    num_samples=st.integers(1, 60),
    steps=st.lists(st.tuples(st.integers(1, 7), st.integers(7, 40)), max_size=12),
)
def test_samples_do_not_depend_on_the_workers_and_the_batches(seed, num_samples, steps):
    order = PositionOrder(seed, num_samples)
    state, pieces = order.initial(), []
    for num_workers, batch in steps:
        plan = order.plan(state, num_workers, batch)
        assert len(plan.parts) == num_workers
        pieces += [order.ids(part) for part in plan.parts]
        state = order.from_json(plan.after.to_json())
    ends = list(accumulate(batch for _, batch in steps))
    total = ends[-1] if ends else 0
    assert state.consumed == total
    assert state.num_epochs == total // num_samples
    whole = [sample for piece in pieces for sample in piece]
    assert whole == (first(PositionOrder(seed, num_samples), total) if steps else [])
    for start in range(0, total - num_samples + 1, num_samples):
        assert sorted(whole[start : start + num_samples]) == list(range(num_samples))


def test_epochs_and_seeds_differ_and_an_epoch_stays_what_it_is():
    order = PositionOrder(3, 50)
    ids = first(order, 500)
    assert ids[:50] != ids[50:100]
    assert first(order, 50) == ids[:50]
    assert first(PositionOrder(4, 50), 50) != ids[:50]
    # What must never change, or no old run could be repeated.
    assert ids[:5] == FIRST_OF_SEED_3
    assert ids[50:55] == FIRST_OF_SEED_3_EPOCH_1


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
FIRST_OF_SEED_3 = [43, 6, 3, 5, 33]
FIRST_OF_SEED_3_EPOCH_1 = [45, 29, 13, 14, 8]


@pytest.mark.parametrize("kind", ["positions", "blocks"])
def test_numbers_that_no_order_can_be_made_of_are_refused(kind):
    order = data_order(kind, 0, 10, 4)
    with pytest.raises(ValueError, match="cannot be shared"):
        order.plan(order.initial(), 3, 2)
    with pytest.raises(ValueError, match="at least 1"):
        data_order(kind, 0, 0, 4)
    other = data_order({"positions": "blocks", "blocks": "positions"}[kind], 0, 10, 4)
    with pytest.raises(ValueError, match=f"is of the order '{kind}'"):
        other.from_json(order.initial().to_json())


def test_an_unknown_order_is_refused_in_words():
    with pytest.raises(ValueError, match="'shuffled' is unknown; known: positions, blocks"):
        data_order("shuffled", 0, 10, 4)
    with pytest.raises(ValueError, match="block_samples is 0"):
        data_order("blocks", 0, 10, 0)

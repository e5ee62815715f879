"""Blocks handed out by arithmetic: every sample once, whatever becomes of the membership."""

import json
import zlib
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems.runtime.data.block_order import BlockOrder

SIZES = st.tuples(st.integers(0, 2**40), st.integers(1, 120), st.integers(1, 40))
"""Seed, samples of an epoch, samples of a block."""
STEPS = st.lists(
    st.integers(1, 6).flatmap(
        lambda workers: st.tuples(
            st.just(workers), st.integers(workers, 50), st.integers(1, 4), st.booleans()
        )
    ),
    max_size=15,
)
"""Workers, global batch, steps in a row with these, whether the state is written and read."""


def live_through(order, steps):
    """Every plan of a history."""
    state = order.initial()
    for num_workers, batch, count, is_saved in steps:
        for _ in range(count):
            plan = order.plan(state, num_workers, batch)
            yield plan
            state = plan.after
            if is_saved:
                state = order.from_json(json.loads(json.dumps(state.to_json())))
                assert state == plan.after


class NaivePipeline:
    """The same pipeline as one would write it down: lists of samples, moved about."""

    def __init__(self, seed, num_samples, block_samples):
        self.seed, self.num_samples, self.block_samples = seed, num_samples, block_samples
        self.epoch = -1
        self.pool, self.services = [], []

    def draw(self):
        if not self.pool:
            self.epoch += 1
            blocks = [
                list(range(start, min(start + self.block_samples, self.num_samples)))
                for start in range(0, self.num_samples, self.block_samples)
            ]
            stream = [self.seed, zlib.crc32(b"block order"), self.epoch]
            self.pool = [
                [(self.epoch, sample) for sample in blocks[index]]
                for index in np.random.default_rng(stream).permutation(len(blocks))
            ]
        return self.pool.pop(0)

    def step(self, num_workers, batch):
        if len(self.services) != num_workers:
            self.pool = [hand for hand in self.services if hand] + self.pool
            self.services = [self.draw() for _ in range(num_workers)]
        consumed = []
        for rank in range(num_workers):
            mine = []
            for _ in range(batch // num_workers + (rank < batch % num_workers)):
                if not self.services[rank]:
                    self.services[rank] = self.draw()
                mine.append(self.services[rank].pop(0))
            consumed.append(mine)
        return consumed


def samples(order, ranges):
    return [(part.epoch, sample) for part in ranges for sample in order.ids([part])]


@given(sizes=SIZES, steps=STEPS)
def test_it_does_what_a_naive_pipeline_does(sizes, steps):
    order, naive = BlockOrder(*sizes), NaivePipeline(*sizes)
    plans = live_through(order, steps)
    for num_workers, batch, count, _ in steps:
        for _ in range(count):
            plan = next(plans)
            assert [samples(order, part) for part in plan.parts] == naive.step(num_workers, batch)


@given(sizes=SIZES, steps=STEPS)
def test_every_sample_is_consumed_once_in_every_epoch(sizes, steps):
    order = BlockOrder(*sizes)
    times, state = defaultdict(Counter), order.initial()
    for plan in live_through(order, steps):
        for part in plan.parts:
            for epoch, sample in samples(order, part):
                times[epoch][sample] += 1
        state = plan.after
    once = Counter(range(order.num_samples))
    assert all(times[epoch] == once for epoch in range(state.num_epochs))
    assert all(seen <= once for seen in times.values())
    assert state.consumed == sum(seen.total() for seen in times.values())
    # What is in no epoch that is over is in the pool or in a worker's hands: nothing is lost.
    for part in (*state.returned, *state.assigned):
        for epoch, sample in samples(order, [part]):
            times[epoch][sample] += 1
    rest = range(state.cursor, order.num_samples) if state.cursor else ()
    for sample in order.ids((state.epoch, at, at + 1) for at in rest):
        times[state.epoch][sample] += 1
    assert all(seen == once for seen in times.values())


@given(sizes=SIZES, steps=STEPS)
def test_a_worker_reads_its_block_from_front_to_back(sizes, steps):
    order = BlockOrder(*sizes)
    reading, num_workers = {}, 0
    for plan in live_through(order, steps):
        if len(plan.parts) != num_workers:
            reading, num_workers = {}, len(plan.parts)
        for rank, part in enumerate(plan.parts):
            for piece in part:
                ids = order.ids([piece])
                assert ids == list(range(ids[0], ids[0] + len(ids)))
                assert ids[0] // order.block_samples == ids[-1] // order.block_samples
                last = reading.get(rank)
                block_is_read = last is not None and (
                    (last + 1) % order.block_samples == 0 or last + 1 == order.num_samples
                )
                # A block returned by another may be begun in the middle, but none is left.
                assert last is None or ids[0] == last + 1 or block_is_read
                reading[rank] = ids[-1]


@given(sizes=SIZES, steps=STEPS)
def test_what_a_change_gives_back_is_read_before_new_blocks(sizes, steps):
    order = BlockOrder(*sizes)
    most, before = 0, order.initial()
    for plan in live_through(order, steps):
        most = max(most, len(plan.parts))
        after = plan.after
        assert len(after.returned) + sum(r.start < r.stop for r in after.assigned) <= most
        if after.returned:
            assert (after.epoch, after.cursor) == (before.epoch, before.cursor)
        if 0 < len(before.assigned) < len(plan.parts):  # survivors keep what they read
            for rank, left in enumerate(before.assigned):
                if all(r.start < r.stop for r in before.assigned):
                    assert plan.parts[rank][0][:2] == left[:2]
        before = after


BLOCKS_OF_SEED_5_EPOCH_2 = [5, 0, 4, 1, 3, 2]


def test_ids_of_ranges_over_many_blocks():
    order = BlockOrder(5, 23, 4)
    whole = order.ids([(2, 0, 23)])
    assert sorted(whole) == list(range(23))
    assert whole != order.ids([(3, 0, 23)])
    assert whole != BlockOrder(6, 23, 4).ids([(2, 0, 23)])
    for start in range(23):
        for stop in range(start, 24):
            assert order.ids([(2, start, stop)]) == whole[start:stop]
    assert order.ids([(2, 3, 9), (0, 1, 1), (2, 9, 11)]) == whole[3:11]
    # What must never change, or no old run could be repeated.
    assert list(dict.fromkeys(sample // 4 for sample in whole)) == BLOCKS_OF_SEED_5_EPOCH_2


def test_a_block_larger_than_the_epoch_is_the_epoch():
    order = BlockOrder(0, 10, 64)
    plan = order.plan(order.initial(), 2, 4)
    assert [order.ids(part) for part in plan.parts] == [[0, 1], [0, 1]]
    assert [part[0].epoch for part in plan.parts] == [0, 1]


@pytest.mark.parametrize("history", [[(4, 8)] * 3, [(1, 9), (3, 9), (2, 7), (3, 30)]])
def test_the_same_history_gives_the_same_plan(history):
    def last_of(order):
        state = order.initial()
        for num_workers, batch in history:
            plan = order.plan(state, num_workers, batch)
            again = order.plan(state, num_workers, batch)
            assert plan == again
            state = plan.after
        return plan

    assert last_of(BlockOrder(9, 31, 5)) == last_of(BlockOrder(9, 31, 5))

"""The dynamic program against the table of the paper's algorithm and against all splits."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.schedulers.common.slot_split import Worth, best_split
from tests.examples import examples
from tests.schedulers.naive_saxena import optimise

NONE = -np.inf


def worth(values):
    """From the value on 0, 1, 2, ... slots, minus infinity where it cannot run."""
    finite = [slots for slots, value in enumerate(values) if value > NONE]
    return Worth(finite[0], np.array(values[finite[0] : finite[-1] + 1]))


def all_splits(jobs, num_slots):
    """The greatest sum over every way to split; None if there is no way."""
    found = [
        sum(values[slots] for values, slots in zip(jobs, split, strict=True))
        for split in itertools.product(*(range(len(values)) for values in jobs))
        if sum(split) <= num_slots
    ]
    best = max(found, default=NONE)
    return best if best > NONE else None


@st.composite
def jobs(draw, most_jobs=5, most_slots=5):
    numbers = st.one_of(st.just(NONE), st.sampled_from([0.5, 1.0, 1.5, 2.0]), st.floats(0.01, 9.0))
    found = []
    for _ in range(draw(st.integers(1, most_jobs))):
        values = [NONE, *draw(st.lists(numbers, min_size=1, max_size=most_slots))]
        if max(values) == NONE:
            values[-1] = 1.0
        found.append(values)
    return found


def test_the_last_slot_goes_where_it_is_worth_most():
    steep, flat = [NONE, 1.0, 1.9, 2.7], [NONE, 1.0, 1.2, 1.3]
    assert best_split([worth(flat), worth(steep)], 2) == [1, 1]
    assert best_split([worth(flat), worth(steep)], 4) == [1, 3]
    assert best_split([worth(flat), worth(steep)], 5) == [2, 3]
    assert best_split([worth(flat), worth(steep)], 99) == [3, 3]


def test_infeasible_exactly_when_the_fewest_do_not_fit():
    needs_three = [NONE, NONE, NONE, 1.0, 1.5]
    assert best_split([worth(needs_three)] * 3, 8) is None
    assert best_split([worth(needs_three)] * 3, 9) == [3, 3, 3]
    assert best_split([], 0) == []
    assert best_split([], 5) == []


def test_a_dip_is_jumped_over_and_slots_that_do_not_help_stay_free():
    """resnet50 of the paper is slower on 3 slots, over two hosts, than on 2."""
    dips = [NONE, 1.0, 1.66, 1.4, 1.7, 2.0]
    assert best_split([worth(dips)], 3) == [2]
    assert best_split([worth(dips), worth(dips)], 6) == [4, 2]
    falls = [NONE, 1.0, 0.5]
    assert best_split([worth(falls)] * 2, 4) == [1, 1]


def test_among_equal_sums_the_last_job_has_the_fewest():
    line = [NONE, 1.0, 2.0, 3.0]
    assert best_split([worth(line)] * 3, 5) == [3, 1, 1]


@settings(deadline=None, max_examples=examples(300))
@given(found=jobs(), num_slots=st.integers(0, 16))
def test_equal_to_the_table_of_the_algorithm_and_best_of_all_splits(found, num_slots):
    shares = best_split([worth(values) for values in found], num_slots)
    assert shares == optimise(found, num_slots)
    best = all_splits(found, num_slots)
    if best is None:
        assert shares is None
        return
    assert shares is not None
    assert sum(shares) <= num_slots
    value = sum(values[slots] for values, slots in zip(found, shares, strict=True))
    assert value == pytest.approx(best, rel=1e-12)


@settings(deadline=None, max_examples=examples(100))
@given(found=jobs(), num_slots=st.integers(0, 16))
def test_more_slots_are_never_worth_less(found, num_slots):
    def value(slots):
        shares = best_split([worth(values) for values in found], slots)
        if shares is None:
            return NONE
        return sum(values[count] for values, count in zip(found, shares, strict=True))

    assert value(num_slots + 1) >= value(num_slots) - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_equal_to_the_table_at_the_size_of_a_cluster(seed):
    rng = random.Random(seed)
    found = [
        [NONE, *np.cumsum([rng.choice([0.1, 0.5, 1.0, rng.random()]) for _ in range(10)]).tolist()]
        for _ in range(rng.randint(5, 30))
    ]
    assert best_split([worth(values) for values in found], 40) == optimise(found, 40)

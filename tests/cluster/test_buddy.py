"""Buddy placement, worked by hand and against every subtree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.replay.occupancy import Occupancy
from systems.placements.buddy import Buddy
from tests.examples import examples
from tests.replay.worlds import cluster


def occupied(where, taken):
    occupancy = Occupancy(where)
    occupancy.take(taken)
    return occupancy


def test_the_fullest_subtree_that_has_a_whole_block():
    """Two servers of 8. Free: 1, 4 to 7 on the first; 10 to 15 on the second."""
    where = cluster(2, 8)
    free = occupied(where, [0, 2, 3, 8, 9])
    place = Buddy().place
    assert place(1, where, free) == (1,)
    assert place(2, where, free) == (10, 11)  # 4 and 5 would break a block of four
    assert place(4, where, free) == (4, 5, 6, 7)
    # Nobody has 8: what is left of both.
    assert place(8, where, free) == (1, 4, 5, 6, 7, 10, 11, 12)


def test_growing_and_shrinking_stay_within_the_smallest_subtree():
    where = cluster(2, 8)
    free = occupied(where, [4, 5, 8])
    place = Buddy().place
    assert place(4, where, free, (4, 5)) == (4, 5, 6, 7)
    assert place(8, where, free, (5, 4)) == (5, 4, 0, 1, 2, 3, 6, 7)
    assert place(9, where, free, (4, 5)) == (4, 5, 0, 1, 2, 3, 6, 7, 9)
    assert place(2, where, free, (6, 0, 7, 1, 2)) == (0, 1)
    assert place(2, where, free, (7, 0, 1)) == (0, 1)


def test_jobs_of_seven_strand_slots_and_powers_of_two_do_not():
    """The paper's example: two jobs of 7 on two servers leave no pair on either."""
    where = cluster(2, 8)
    place = Buddy().place
    free = occupied(where, [])
    for _ in range(2):
        free.take(place(7, where, free))
    assert where.num_hosts_of(place(2, where, free)) == 2
    free = occupied(where, [])
    for size in (4, 1, 4, 2, 1):
        free.take(place(size, where, free))
    assert place(4, where, free) == (12, 13, 14, 15)


@settings(deadline=None, max_examples=examples(200))
@given(taken=st.sets(st.integers(0, 31)), power=st.integers(0, 4))
def test_a_free_block_is_found_if_there_is_one(taken, power):
    where, size = cluster(4, 8), 1 << power
    answer = Buddy().place(size, where, occupied(where, sorted(taken)))
    blocks = [set(range(first, first + size)) for first in range(0, 32, size)]
    if any(block.isdisjoint(taken) for block in blocks):
        assert set(answer) in blocks

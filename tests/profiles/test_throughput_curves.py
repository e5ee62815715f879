"""What lies between and beyond measured cells."""

import pytest

from harness.profiles.curves import Family

CELLS = {64: {2: 100.0, 4: 180.0, 16: 120.0}, 128: {2: 110.0, 8: 300.0}}


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        (0, 0.0),
        (1, 50.0),  # below the smallest: proportional to it
        (2, 100.0),
        (3, 140.0),  # a straight line between measured counts
        (4, 180.0),
        (10, 150.0),  # curves that fall are kept
        (16, 120.0),
        (400, 120.0),  # beyond the largest: no growth is invented
    ],
)
def test_throughput_between_and_beyond_measured_slots(slots, expected):
    assert Family(CELLS).curve(64).samples_per_s(slots) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [(1, 180.0), (64, 180.0), (96, (180.0 + 110.0 + (300.0 - 110.0) / 3) / 2), (4096, 520.0 / 3)],
)
def test_throughput_between_and_beyond_measured_batches(batch, expected):
    assert Family(CELLS).curve(batch).samples_per_s(4) == pytest.approx(expected)


def test_another_batch_can_be_asked_of_any_curve():
    family = Family(CELLS)
    assert family.curve(64).samples_per_s(8, 128) == 300.0
    assert family.curve(64).samples_per_s(8, 64) == family.curve(64).samples_per_s(8)


def test_answers_are_remembered_and_curves_are_shared():
    family = Family(CELLS)
    curve = family.curve(64)
    assert family.curve(64) is curve
    assert curve.samples_per_s(10) is curve.samples_per_s(10)


@pytest.mark.parametrize(
    ("max_slots", "expected"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (16, 4), (100, 4)]
)
def test_best_slots_is_the_peak_of_a_curve_that_turns_down(max_slots, expected):
    curve = Family(CELLS).curve(64)
    assert curve.best_slots(max_slots) == expected
    by_hand = max(range(1, max_slots + 1), key=curve.samples_per_s)
    assert curve.samples_per_s(expected) == curve.samples_per_s(by_hand)


def test_best_slots_prefers_fewer_slots_at_equal_speed():
    assert Family({8: {1: 5.0, 2: 9.0, 4: 9.0}}).curve(8).best_slots(64) == 2


def test_best_slots_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 1 slot"):
        Family(CELLS).curve(64).best_slots(0)


def test_linear_family_counts_slots_at_every_batch():
    curve = Family.linear().curve(7)
    assert [curve.samples_per_s(slots) for slots in (0, 1, 400)] == [0.0, 1.0, 400.0]
    assert curve.best_slots(400) == 400

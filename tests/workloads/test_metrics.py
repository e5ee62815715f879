"""Metrics of tasks that have no plain accuracy, on cases that can be counted by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workloads.boxes import Found, average_precision, overlaps, strongest
from workloads.question_answering import _f1
from workloads.speech import _collapsed, _distance


def boxes(*rows):
    return torch.tensor(rows, dtype=torch.float32)


def test_overlaps():
    one = boxes((0.5, 0.5, 0.2, 0.2))
    others = boxes((0.5, 0.5, 0.2, 0.2), (0.6, 0.5, 0.2, 0.2), (0.9, 0.9, 0.1, 0.1))
    assert overlaps(one, others)[0].tolist() == pytest.approx([1.0, 1 / 3, 0.0])


def test_the_same_thing_twice_counts_once():
    found = boxes((0.5, 0.5, 0.2, 0.2), (0.51, 0.5, 0.2, 0.2), (0.1, 0.1, 0.1, 0.1))
    assert strongest(found, torch.tensor([0.7, 0.9, 0.3])) == [1, 2]
    assert strongest(found, torch.tensor([0.7, 0.9, 0.001])) == [1]
    assert strongest(found, torch.zeros(3)) == []


THING = boxes((0.5, 0.5, 0.2, 0.2))
NOTHING = torch.zeros(0, 4)
ELSEWHERE = torch.tensor((0.1, 0.1, 0.1, 0.1))


@pytest.mark.parametrize(
    ("found", "wanted", "precision"),
    [
        ([], [NOTHING], None),
        ([], [THING], 0.0),
        ([(0, 0.9, THING[0])], [THING], 1.0),
        ([(0, 0.9, ELSEWHERE)], [THING], 0.0),
        ([(0, 0.9, THING[0]), (0, 0.8, THING[0])], [THING], 1.0),
        ([(0, 0.9, ELSEWHERE), (0, 0.8, THING[0])], [THING], 0.5),
        ([(0, 0.9, THING[0])], [THING, THING], 0.5),
        ([(1, 0.9, THING[0])], [THING, NOTHING], 0.0),
        # Right, wrong, right: precision 1 up to half the recall, then 2/3.
        ([(0, 0.9, THING[0]), (0, 0.8, ELSEWHERE), (1, 0.7, THING[0])], [THING, THING], 5 / 6),
    ],
)
def test_average_precision(found, wanted, precision):
    value = average_precision([Found(*one) for one in found], wanted)
    assert value == (None if precision is None else pytest.approx(precision))


def test_f1_of_spans():
    first, last = torch.tensor([2, 2, 5, 4]), torch.tensor([4, 3, 4, 4])
    start, end = torch.tensor([2, 3, 1, 1]), torch.tensor([4, 6, 4, 2])
    assert _f1(first, last, start, end).tolist() == pytest.approx([1.0, 1 / 3, 0.0, 0.0])


def test_paths_collapse():
    assert _collapsed(torch.tensor([0, 1, 1, 0, 1, 2, 2, 0])) == [1, 1, 2]
    assert _collapsed(torch.tensor([0, 0])) == []


def slow_distance(left, right):
    if not left or not right:
        return len(left) + len(right)
    return min(
        slow_distance(left[1:], right) + 1,
        slow_distance(left, right[1:]) + 1,
        slow_distance(left[1:], right[1:]) + (left[0] != right[0]),
    )


words = st.lists(st.integers(1, 3), max_size=5)


@given(words, words)
def test_distance_is_the_fewest_edits(heard, said):
    assert _distance(heard, said) == slow_distance(heard, said)

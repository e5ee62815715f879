"""Exact solution of the multiple-choice knapsack: a choice for each job under one capacity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from systems.schedulers.hu.tables import Whole

_OUT_OF_REACH = -(1 << 60)


class _Relaxed(NamedTuple):
    """Choices of the jobs at one price of a node."""

    price: int
    chosen: Whole
    used: int
    net: Whole


def choose(
    worth: Whole, extra: Whole, capacity: int, present: Whole, near: int, care: int
) -> Whole:
    """Return the choices with the greatest total value within the capacity, one for each job.

    A price gives a bound. Let D be the difference between the bound and the best known answer. A
    choice that loses more than D against its job's best at that price cannot be part of a better
    answer. So most jobs have one choice left, and dynamic programming decides about the others.

    Args:
        worth: value by jobs and choices.
        extra: additional nodes by jobs and choices; the first choice of every job takes none.
        capacity: number of additional nodes.
        present: a known choice for each job, to start from if it fits.
        near: price of a node near which to search.
        care: loss of value that is accepted to save time; 0: the answer is optimal.
    """
    rows = np.arange(len(worth))
    relaxed = _price(worth, extra, capacity, near, rows)
    best = relaxed.net[rows, relaxed.chosen]
    bound = int(best.sum()) + relaxed.price * capacity
    known = _filled(worth, extra, capacity, relaxed, rows)
    value = int(worth[rows, known].sum())
    if int(extra[rows, present].sum()) <= capacity:
        present_value = int(worth[rows, present].sum())
        if present_value >= value:
            known, value = present, present_value
    if bound - value <= care:
        return known
    open_ = best[:, None] - relaxed.net <= bound - value
    return _settled(worth, extra, capacity, open_)


def _price(worth: Whole, extra: Whole, capacity: int, near: int, rows: Whole) -> _Relaxed:
    """Return the lowest price of a node at which the jobs' choices fit into the cluster together.

    The price is exact to a thousandth of itself.
    """

    def at(price: int) -> _Relaxed:
        net = worth - price * extra
        chosen = net.argmax(1)
        return _Relaxed(price, chosen, int(extra[rows, chosen].sum()), net)

    fits, stride = at(near), max(1, near >> 3)
    low = -1  # at this price and below, the choices do not fit
    while fits.used > capacity:
        low = fits.price
        fits = at(low + stride)
        stride *= 2
    while low < 0 < fits.price:
        lower = at(max(0, fits.price - stride))
        stride *= 2
        if lower.used > capacity:
            low = lower.price
        else:
            fits = lower
    while 0 < fits.price > low + 1 + (fits.price >> 10) and fits.used < capacity:
        middle = at((low + fits.price) // 2)
        if middle.used > capacity:
            low = middle.price
        else:
            fits = middle
    return fits


def _filled(worth: Whole, extra: Whole, capacity: int, relaxed: _Relaxed, rows: Whole) -> Whole:
    """Return the choices at a price, improved with the nodes that are left, largest gain first."""
    chosen = relaxed.chosen.copy()
    room = capacity - relaxed.used
    while room > 0:
        gain = worth - worth[rows, chosen][:, None]
        gain[extra - extra[rows, chosen][:, None] > room] = -1
        row, choice = divmod(int(gain.argmax()), gain.shape[1])
        if gain[row, choice] <= 0:
            break
        room -= int(extra[row, choice] - extra[row, chosen[row]])
        chosen[row] = choice
    return chosen


def _settled(worth: Whole, extra: Whole, capacity: int, open_: NDArray[np.bool_]) -> Whole:
    """Find the best of the choices that are still open, by dynamic programming over the nodes."""
    chosen: Whole = open_.argmax(1)
    several = np.flatnonzero(open_.sum(1) > 1).tolist()
    single = np.ones(len(worth), np.bool_)
    single[several] = False
    left = capacity - int(np.take_along_axis(extra, chosen[:, None], 1)[single].sum())
    options = [
        [
            (choice, int(extra[row, choice]), int(worth[row, choice]))
            for choice in np.flatnonzero(open_[row]).tolist()
            if extra[row, choice] <= left
        ]
        for row in several
    ]
    reached: Whole = np.zeros(left + 1, np.int64)
    before = []
    for option in options:
        before.append(reached)
        reached = np.full(left + 1, _OUT_OF_REACH)
        for _, nodes, value in option:
            np.maximum(reached[nodes:], before[-1][: left + 1 - nodes] + value, out=reached[nodes:])
    value = int(reached[left])
    for row, option, earlier in zip(
        reversed(several), reversed(options), reversed(before), strict=True
    ):
        for choice, nodes, gain in option:
            if nodes <= left and int(earlier[left - nodes]) + gain == value:
                chosen[row] = choice
                left -= nodes
                value -= gain
                break
    return chosen

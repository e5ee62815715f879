"""Free slots over time, piecewise constant, so that a long span costs no more than a short span."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from systems.schedulers.common.sizes import Levels

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Share:
    """Slots of one job in each time slot, as constant pieces.

    The job has ``counts[k]`` slots from time slot ``starts[k]`` to the start of the next piece; the
    last piece ends before ``end``.
    """

    starts: Ints
    counts: Ints
    end: int

    @property
    def lengths(self) -> Ints:
        """Number of time slots of every piece."""
        return np.diff(self.starts, append=self.end)

    @property
    def usage(self) -> int:
        """Total slot time: slots times time slots."""
        return int((self.counts * self.lengths).sum())

    @property
    def most(self) -> int:
        """Largest number of slots in any time slot."""
        return int(self.counts.max())

    def extremes(self, start: int, end: int) -> tuple[int, int]:
        """Return the fewest and most slots in any time slot from ``start`` to before ``end``."""
        first = max(0, int(self.starts.searchsorted(start, side="right")) - 1)
        counts = self.counts[first : max(first + 1, int(self.starts.searchsorted(end)))].tolist()
        return (0 if end > self.end else min(counts)), max(counts)

    def differs_from(self, other: Share) -> tuple[int, int]:
        """Return the first time slot in which another share differs, and the time slot after the
        last.

        Both shares must have the same first and last time slots.
        """
        starts = np.union1d(self.starts, other.starts)
        differs = np.flatnonzero(self._counts_at(starts) != other._counts_at(starts))
        if not len(differs):
            return self.end, self.end
        after = int(differs[-1]) + 1
        return int(starts[differs[0]]), int(starts[after]) if after < len(starts) else self.end

    def _counts_at(self, slots: Ints) -> Ints:
        return self.counts[self.starts.searchsorted(slots, side="right") - 1]

    def from_slot(self, start: int) -> Share:
        """Return the part of the share from time slot ``start`` on."""
        first = max(0, int(self.starts.searchsorted(start, side="right")) - 1)
        starts = np.maximum(self.starts[first:], start)
        return Share(starts, self.counts[first:], self.end)

    def work(self, levels: Levels) -> float:
        """Return the work that the job does with the share."""
        rates = np.array(levels.rates)[np.array(levels.counts).searchsorted(self.counts)]
        return float((rates * self.lengths).sum())


class FreeOverTime:
    """Number of free slots in every time slot from ``starts[0]`` on."""

    def __init__(self, starts: Ints, free: Ints, room: int = 0) -> None:
        """Begin with these pieces; ``room`` is the number of additional pieces expected."""
        self._size = len(starts)
        self._starts = np.concatenate([starts, np.empty(room + 8, np.int64)])
        self._free = np.concatenate([free, np.empty(room + 8, np.int64)])

    @classmethod
    def constant(cls, start: int, num_slots: int, room: int = 0) -> FreeOverTime:
        """Return an object with ``num_slots`` free slots from time slot ``start`` on."""
        return cls(np.array([start]), np.array([num_slots]), room)

    def copy(self) -> FreeOverTime:
        """Return an independent copy."""
        return FreeOverTime(self._starts[: self._size], self._free[: self._size], 16)

    def at(self, slot: int) -> int:
        """Return the free slots in one time slot."""
        starts = self._starts[: self._size]
        return int(self._free[starts.searchsorted(slot, side="right") - 1])

    def extremes(self, start: int, end: int) -> tuple[int, int]:
        """Return the fewest and most free slots in any time slot from ``start`` to before
        ``end``."""
        starts = self._starts[: self._size]
        first = starts.searchsorted(start, side="right") - 1
        free = self._free[first : max(first + 1, starts.searchsorted(end))]
        return int(free.min()), int(free.max())

    def least(self, start: int, end: int) -> int:
        """Return the fewest free slots in any time slot from ``start`` to before ``end``."""
        return self.extremes(start, end)[0]

    def take(self, share: Share, sign: int = 1) -> None:
        """Take the slots of a share; give them back if ``sign`` is -1."""
        starts = share.starts.tolist()
        for start, end, count in zip(
            starts, [*starts[1:], share.end], share.counts.tolist(), strict=True
        ):
            if count and end > start:
                self.take_range(start, end, sign * count)

    def take_range(self, start: int, end: int, count: int) -> None:
        """Take ``count`` slots in the time slots from ``start`` to before ``end``."""
        first, last = self._cut(start), self._cut(end)
        self._free[first:last] -= count

    def _cut(self, slot: int) -> int:
        """Return the index of the piece that begins at ``slot``; split a piece there if
        necessary."""
        size = self._size
        index = int(self._starts[:size].searchsorted(slot))
        if index < size and self._starts[index] == slot:
            return index
        if size == len(self._starts):
            self._starts = np.concatenate([self._starts, np.empty(size, np.int64)])
            self._free = np.concatenate([self._free, np.empty(size, np.int64)])
        starts, free = self._starts, self._free
        starts[index + 1 : size + 1] = starts[index:size]
        free[index + 1 : size + 1] = free[index:size]
        starts[index] = slot
        free[index] = free[index - 1]
        self._size = size + 1
        return index

    def fill(
        self, levels: Levels, need: float, start: int, end: int, held: Share | None = None
    ) -> Share | None:
        """Return the smallest share that does the work ``need`` (progressive filling; ElasticFlow,
        Algorithm 1).

        The job is raised level by level, and on each level from the last time slot back to the
        first, until it does its work. If a level does not fit into the free slots, the highest of
        the job's levels that fits is used. The result is therefore a level in the latest time slots
        and the level below it in earlier time slots, limited by the free slots. The slots of the
        result are not taken.

        Args:
            levels: sizes that the job can have, and its work in a time slot on each.
            need: work that has to be done.
            start: first time slot that the job may use.
            end: first time slot that is too late.
            held: slots that the job holds itself, which it would give back.

        Returns:
            The share, or None if the work cannot be done with all free slots.
        """
        if need <= 0.0:
            return Share(np.array([start]), np.zeros(1, np.int64), max(start, end))
        if end <= start:
            return None
        first, last = self._cut(start), self._cut(end)
        starts, free = self._starts[first:last], self._free[first:last]
        if held is not None:
            free = free + held._counts_at(starts)
        lengths = self._starts[first + 1 : last + 1] - starts
        fits = levels.counts_array.searchsorted(free, side="right") - 1
        times = np.bincount(fits, weights=lengths, minlength=len(levels.counts))
        level, raised = _level_for(levels.rates, times.tolist(), need)
        if level == 0:
            return None
        # Raise the latest `raised` of the time slots that have room for this level.
        behind = (lengths * (fits >= level))[::-1].cumsum()
        back = int(behind.searchsorted(raised))
        piece = len(starts) - 1 - back
        given = np.minimum(fits, level)
        low = np.minimum(fits[: piece + 1], level - 1)
        given[:piece] = low[:piece]
        counts = levels.counts_array[given]
        if too_many := int(behind[back]) - raised:  # only the last part of the piece is raised
            switch = int(starts[piece]) + too_many
            starts = np.concatenate([starts[: piece + 1], [switch], starts[piece + 1 :]])
            below = levels.counts_array[low[piece]]
            counts = np.concatenate([counts[:piece], [below], counts[piece:]])
        new = np.empty(len(counts), np.bool_)
        new[0] = True
        np.not_equal(counts[1:], counts[:-1], out=new[1:])
        return Share(starts[new], counts[new], end)


def _level_for(rates: tuple[float, ...], times: list[float], need: float) -> tuple[int, int]:
    """Return the level to fill to, and the number of time slots on it; level 0 if none suffices.

    Args:
        rates: work in a time slot, by level.
        times: number of time slots by their highest fitting level.
        need: work that has to be done, above 0.
    """
    room = sum(times[1:])
    done = 0.0
    for level in range(1, len(rates)):
        gain = rates[level] - rates[level - 1]
        if done + gain * room >= need:
            return level, min(max(math.ceil((need - done) / gain), 1), int(room))
        done += gain * room
        room -= times[level]
    return 0, 0

"""Throughput curves: measured cells, and the assumed values between and beyond them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial


class Row:
    """T(w) at one global batch, from measured cells.

    Between two measured slot counts T is a straight line in the number of slots. Beyond the
    largest it stays at the last measured value: growth is never extrapolated. Below the
    smallest it is proportional to the slots: T(w) = T(w0) * w / w0. Cells that were not
    measured are left out, and curves that fall are kept as they are.
    """

    __slots__ = ("slots", "values")

    def __init__(self, cells: Mapping[int, float]) -> None:
        self.slots = tuple(sorted(cells))
        self.values = tuple(cells[num_slots] for num_slots in self.slots)

    def at(self, num_slots: int) -> float:
        """Return the samples per second on ``num_slots`` slots."""
        slots, values = self.slots, self.values
        if num_slots <= 0:
            return 0.0
        if num_slots >= slots[-1]:
            return values[-1]
        if num_slots <= slots[0]:
            return values[0] * num_slots / slots[0]
        right = bisect_left(slots, num_slots)
        share = (num_slots - slots[right - 1]) / (slots[right] - slots[right - 1])
        return values[right - 1] + share * (values[right] - values[right - 1])

    def times(self, factor: Callable[[int], float]) -> Row:
        """Return the row with each speed multiplied by a factor, asked by slot count in ascending
        order."""
        cells = zip(self.slots, self.values, strict=True)
        return Row({num_slots: value * factor(num_slots) for num_slots, value in cells})


class LinearRow:
    """T(w) = w, for jobs whose program is unknown and whose work is in slot-seconds."""

    slots: tuple[int, ...] = ()

    def __init__(self, per_slot: float = 1.0) -> None:
        self.per_slot = per_slot
        """Samples per second of every slot."""

    def at(self, num_slots: int) -> float:
        """Return ``num_slots``, at least 0, times ``per_slot``."""
        return self.per_slot * max(0, num_slots)

    def times(self, factor: Callable[[int], float]) -> LinearRow:
        """Return the line whose speed per slot is multiplied by the factor of one slot."""
        return LinearRow(self.per_slot * factor(1))


class Curve:
    """Throughput of one workload at one global batch (``harness.contracts`` ``Throughput``).

    Between two measured batches, samples per second follow a straight line in the batch. Outside
    the measured batches the samples per second of the nearest batch are used, so the time per
    sample is assumed to be constant. Answers are cached, so that a repeated question costs one
    lookup.

    A device type that was measured separately has its own curves; all others have this curve.
    """

    __slots__ = ("_cache", "_devices", "_family", "_rows", "global_batch")

    def __init__(
        self,
        global_batch: int,
        rows: Sequence[tuple[float, Row | LinearRow]],
        family: Callable[[int], Curve],
        devices: Mapping[str, Family],
    ) -> None:
        self.global_batch = global_batch
        self._devices = devices
        self._rows = tuple(rows)
        """Rows and their weights, which sum to 1."""
        self._family = family
        self._cache: dict[int, float] = {}

    def samples_per_s(
        self, num_slots: int, global_batch: int | None = None, device_type: str | None = None
    ) -> float:
        """Return T(w), samples per second on ``num_slots`` slots; 0 on 0 slots.

        ``global_batch`` None means the curve's own, ``device_type`` None its own device.
        """
        if device_type is not None and device_type in self._devices:
            batch = self.global_batch if global_batch is None else global_batch
            return self._devices[device_type].curve(batch).samples_per_s(num_slots)
        if global_batch is not None and global_batch != self.global_batch:
            return self._family(global_batch).samples_per_s(num_slots)
        value = self._cache.get(num_slots)
        if value is None:
            value = sum(weight * row.at(num_slots) for weight, row in self._rows)
            self._cache[num_slots] = value
        return value

    def best_slots(self, max_slots: int) -> int:
        """Return the slot count up to ``max_slots`` with the highest throughput; ties: the fewest.

        Linear pieces have their maximum at a measured count or at ``max_slots``, so only those are
        evaluated.

        Raises:
            ValueError: ``max_slots`` is below 1.
        """
        if max_slots < 1:
            raise ValueError(f"max_slots is {max_slots}; a job needs at least 1 slot")
        measured = {slots for _, row in self._rows for slots in row.slots if slots < max_slots}
        return max(sorted(measured | {max_slots}), key=self.samples_per_s)


class Family:
    """All curves of one workload, by global batch."""

    across: Family | None = None
    """Curves with the slots on several hosts; None if they were not measured separately."""

    def __init__(self, cells: Mapping[int, Mapping[int, float]]) -> None:
        self.devices: dict[str, Family] = {}
        """Curves on device types that were measured separately, by type."""
        self._rows: dict[int, Row | LinearRow] = {
            batch: Row(cells[batch]) for batch in sorted(cells)
        }
        self._batches = tuple(self._rows)
        self._curves: dict[int, Curve] = {}

    @classmethod
    def linear(cls) -> Family:
        """Return a family with T(w) = w at every batch."""
        family = cls({})
        family._rows = {1: LinearRow()}
        family._batches = (1,)
        return family

    @property
    def batches(self) -> tuple[int, ...]:
        """Measured global batches, ascending."""
        return self._batches

    def measured_slots(self, global_batch: int) -> tuple[int, ...]:
        """Return the measured slot counts of a measured batch, ascending."""
        return self._rows[global_batch].slots

    def curve(self, global_batch: int) -> Curve:
        """Return the curve at ``global_batch``: always the same object for the same batch."""
        found = self._curves.get(global_batch)
        if found is None:
            rows = self._weighted(global_batch)
            found = Curve(global_batch, rows, self.curve, self.devices)
            self._curves[global_batch] = found
        return found

    def times(self, factor: Callable[[int, int], float]) -> Family:
        """Return the family with each speed multiplied by the factor of its batch and slots.

        Factors are asked in ascending order. The result has no other device types, and no curves
        for slots on several hosts.
        """
        family = Family({})
        family._rows = {
            batch: row.times(partial(factor, batch)) for batch, row in self._rows.items()
        }
        family._batches = self._batches
        return family

    def _weighted(self, batch: int) -> list[tuple[float, Row | LinearRow]]:
        """Return the rows to mix for a batch, with their weights."""
        batches, rows = self._batches, self._rows
        if batch <= batches[0]:
            return [(1.0, rows[batches[0]])]
        if batch >= batches[-1]:
            return [(1.0, rows[batches[-1]])]
        right = bisect_left(batches, batch)
        if batches[right] == batch:
            return [(1.0, rows[batch])]
        low, high = batches[right - 1], batches[right]
        share = (batch - low) / (high - low)
        return [(1.0 - share, rows[low]), (share, rows[high])]

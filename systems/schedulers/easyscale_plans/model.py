"""Waste and performance of a configuration of virtual workers (EasyScale, 3.4.1, eq. 1).

Device types are numbered; every tuple here has one entry for each. Rates are local mini-batches per
second: one virtual worker computes one local mini-batch in every step.

The text leaves N_i out of the first term of (1c). With it ``perf`` is ``maxP / f_overload``, the
rate at which local mini-batches are really done; without it, that only holds for one device of each
type.
"""

from __future__ import annotations

from dataclasses import dataclass

Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """One device type, with its speed for one job."""

    capability: float
    """C_i: local mini-batches per second of one virtual worker alone; 0: the job cannot run
    here."""
    interference: tuple[float, ...] = (1.0,)
    """I_i of 1, 2, ... executors on one device: measured speed of each, relative, in (0, 1].

    No more executors are considered than there are entries.
    """
    max_executors: int = 1
    """Number of executors that fit into the device's memory."""

    def __post_init__(self) -> None:
        if not 0 <= self.capability < float("inf"):
            raise ValueError(f"capability is {self.capability}; it must be finite and >= 0")
        if not self.interference or any(not 0 < factor <= 1 for factor in self.interference):
            raise ValueError(
                f"interference is {self.interference}; give a factor in (0, 1] for 1, 2, ..."
                " executors"
            )

    @property
    def executors(self) -> range:
        """Numbers of executors that one device can have."""
        return range(1, min(len(self.interference), self.max_executors) + 1)

    def combined(self, executors: int) -> float:
        """Return MC_i = m C_i I_i: the capability of all executors of one device together."""
        return executors * self.capability * self.interference[executors - 1]


@dataclass(frozen=True, slots=True)
class Configuration:
    """<nums, executors, threads, waste, perf> of section 3.4.2; 0 where a type is not used."""

    nums: Counts
    """N_i: devices of each type."""
    executors: Counts
    """m: executors on each device."""
    threads: Counts
    """A_i: the most virtual workers of each executor."""
    waste: float
    """Local mini-batches per second that the devices could compute but do not (eq. 1c)."""
    waste_percent: float
    """waste_norm (eq. 1d)."""
    perf: float
    """Local mini-batches per second (eq. 1e)."""

    @property
    def num_slots(self) -> int:
        """Number of devices in all."""
        return sum(self.nums)


def evaluate(
    devices: tuple[Device, ...], nums: Counts, executors: Counts, threads: Counts, max_p: int
) -> Configuration | None:
    """Evaluate a configuration by equations 1a to 1e, with MC_i and MA_i for several executors.

    Args:
        devices: the device types.
        nums: N_i, devices of each type.
        executors: m, executors on each device.
        threads: A_i, at least 1 where N_i is above 0.
        max_p: virtual workers of the job.

    Returns:
        The configuration, or None if the virtual workers do not fit (1a) or nothing can be
        computed.
    """
    used = [i for i, count in enumerate(nums) if count > 0]
    speeds = {i: devices[i].combined(executors[i]) for i in used}
    units = {i: executors[i] * threads[i] for i in used}
    capacity = sum(nums[i] * units[i] for i in used)
    if not used or capacity < max_p or min(speeds.values()) <= 0 or min(units.values()) < 1:
        return None
    overload = max(units[i] / speeds[i] for i in used)
    idle = sum(nums[i] * (speeds[i] - units[i] / overload) for i in used)
    waste = idle + (capacity - max_p) / overload
    power = sum(nums[i] * speeds[i] for i in used)
    return Configuration(nums, executors, threads, waste, 100 * waste / power, power - waste)

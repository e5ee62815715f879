"""Speeds that schedulers see, with deliberate random errors."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from harness.profiles.curves import Family
from harness.profiles.document import Document

EACH = ("curve", "speed")


@dataclass(frozen=True, slots=True)
class Shown:
    """Errors of the speeds that schedulers see; the engine runs on the true speeds.

    Every factor is drawn evenly from 1 - ``speed_error`` to 1 + ``speed_error``. With ``each`` set
    to ``curve``, a whole curve (a workload on a device type) has one factor. This is as if it had
    been measured on a slower or faster machine. Remaining times are then wrong, and the gain from
    another slot is right in proportion. With ``speed``, each measured speed has its own factor, as
    if each had been measured badly. The gain from another slot is then wrong as well. The line
    assumed for unknown programs (``recorded``) has only one speed.

    The draws depend on the run's seed and on the names of workload and device type. They do not
    depend on ``speed_error``: a larger error makes the same speeds wrong in the same direction.

    Raises:
        ValueError: a value is out of range.
    """

    speed_error: float = 0.0
    each: str = "curve"

    def __post_init__(self) -> None:
        problems = []
        is_number = isinstance(self.speed_error, int | float)
        if isinstance(self.speed_error, bool) or not is_number or not 0 <= self.speed_error < 1:
            problems.append(f"speed_error is {self.speed_error!r}; it must lie in [0, 1)")
        if self.each not in EACH:
            problems.append(f"each is {self.each!r}; known: {', '.join(EACH)}")
        if problems:
            raise ValueError("\n".join(problems))

    def mistaken(self, families: Mapping[str, Family], seed: int) -> dict[str, Family]:
        """Return all curves with their errors, by workload."""
        found = {}
        for workload, family in families.items():
            found[workload] = self._mistaken(family, f"{workload}.", seed)
            found[workload].devices = {
                device_type: self._mistaken(other, f"{workload}.{device_type}", seed)
                for device_type, other in family.devices.items()
            }
        return found

    def _mistaken(self, family: Family, name: str, seed: int) -> Family:
        rng = np.random.default_rng([seed, zlib.crc32(f"profile.shown.{name}".encode())])

        def draw() -> float:
            return 1.0 + self.speed_error * (2.0 * rng.random() - 1.0)

        if self.each == "speed":
            return family.times(lambda batch, num_slots: draw())
        factor = draw()
        return family.times(lambda batch, num_slots: factor)


def read_shown(document: Document, value: object, problems: list[str]) -> Shown | None:
    """Return the key ``shown`` of a profile, or None; add its mistakes to ``problems``."""
    if value is None:
        return None
    known = [field.name for field in fields(Shown)]
    if not isinstance(value, Mapping):
        problems.append(f"{document.place('shown')}: is {value!r}; give {', '.join(known)}")
        return None
    unknown = [key for key in value if key not in known]
    problems.extend(
        f"{document.place('shown', str(key))}: unknown key {key!r}; known: {', '.join(known)}"
        for key in unknown
    )
    try:
        return Shown(**{key: value[key] for key in known if key in value})
    except ValueError as error:
        problems.extend(f"{document.place('shown')}: {text}" for text in str(error).splitlines())
        return None

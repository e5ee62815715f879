"""Device types of a profile: other profiles that provide their curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.profiles.curves import Family
from harness.profiles.document import Document
from harness.profiles.errors import ProfileError
from harness.profiles.profile import RECORDED, Profile


def read_devices(
    document: Document,
    value: object,
    folder: Path,
    load: Callable[[Path], Profile],
    problems: list[str],
) -> dict[str, Profile]:
    """Return the profile of each device type in ``devices``, read from its file by ``load``."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.append(
            f"{document.place('devices')}: is {value!r}; give device type → profile file"
        )
        return {}
    found: dict[str, Profile] = {}
    for device_type, path in value.items():
        place = document.place("devices", str(device_type))
        try:
            found[str(device_type)] = load(folder / str(path))
        except ProfileError as error:
            problems.extend(f"{place}: {problem}" for problem in error.problems)
    return found


def add_devices(families: Mapping[str, Family], devices: Mapping[str, Profile]) -> None:
    """Add to every workload its curves on other device types."""
    for device_type, profile in devices.items():
        for workload, family in families.items():
            if workload != RECORDED and workload in profile.families:
                family.devices[device_type] = profile.families[workload]

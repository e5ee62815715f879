"""Gradient noise scales of a profile's workloads, for schedulers that choose batches."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from harness.profiles.document import Document
from harness.profiles.table import number


def read_noise(
    document: Document, value: object, workloads: Collection[str], problems: list[str]
) -> dict[str, float]:
    """Return the key ``noise_scale``, samples by workload; add mistakes to ``problems``."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.append(f"{document.place('noise_scale')}: is {value!r}; give workload: samples")
        return {}
    found: dict[str, float] = {}
    for name, scale in value.items():
        place = document.place("noise_scale", str(name))
        if name not in workloads:
            known = ", ".join(sorted(workloads)) or "none"
            problems.append(f"{place}: there is no curve of {name!r}; known: {known}")
        checked = None if isinstance(scale, str) else number(scale)
        if checked is None or not 0 <= checked < math.inf:
            problems.append(f"{place}: is {scale!r}; give samples, at least 0")
            continue
        found[str(name)] = checked
    return found

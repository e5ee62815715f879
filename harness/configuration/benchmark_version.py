"""Version of the benchmark of a result; results of different versions are never compared.

The version changes when the same configuration asks for other work. That is so if a shipped trace,
profile, workload, deadline or target changes, or the meaning of a metric. It is independent of the
version of the program and of the record format; many program versions keep the benchmark as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from harness.errors import StoredDataError

BENCHMARK_VERSION = 1
"""Version of runs that are made now; their manifests keep it under ``KEY``."""
FIRST_VERSION = 1
"""Version of runs whose manifests have none, because they are older than versions."""
KEY = "benchmark_version"


class VersionError(StoredDataError):
    """Error for results of different versions of the benchmark, which must not be compared."""


def version_of(manifest: Mapping[str, Any]) -> int:
    """Return the version of the benchmark to which a run belongs."""
    return int(manifest.get(KEY, FIRST_VERSION))


def one_version(manifests: Iterable[Mapping[str, Any]], what: str) -> int:
    """Return the benchmark version that all runs share; this program's version if there are no
    runs.

    Args:
        manifests: manifests of the runs.
        what: name of the set for the error: folders, or a study.

    Raises:
        VersionError: the runs have several versions.
    """
    counts = Counter(map(version_of, manifests))
    if len(counts) > 1:
        listed = ", ".join(
            f"version {version} ({count} run{'s' if count != 1 else ''})"
            for version, count in sorted(counts.items())
        )
        raise VersionError(
            f"{what}: runs of different versions of the benchmark, {listed}; such results are"
            " never compared: give folders of one version, or run the older points again"
        )
    return next(iter(counts), BENCHMARK_VERSION)

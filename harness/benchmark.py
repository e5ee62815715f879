"""Which version of the benchmark a result belongs to: other versions are never compared.

The version changes when the same words ask for other work: when a shipped trace, profile,
workload, deadline or target changes, or a metric counts something else. It is no version of the
program, of which many keep the benchmark as it is, nor of the record format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

BENCHMARK_VERSION = 1
"""Of the runs that are made now; their manifests keep it under ``KEY``."""
FIRST_VERSION = 1
"""Of runs whose manifests say nothing: they were made before versions were kept."""
KEY = "benchmark_version"


class VersionError(Exception):
    """Results of different versions of the benchmark, which must not stand side by side."""


def version_of(manifest: Mapping[str, Any]) -> int:
    """The version of the benchmark that a run belongs to."""
    return int(manifest.get(KEY, FIRST_VERSION))


def one_version(manifests: Iterable[Mapping[str, Any]], what: str) -> int:
    """The one version of the benchmark that all runs belong to; this program's if there is none.

    Args:
        manifests: of the runs.
        what: they are, for the error: folders, or a study.

    Raises:
        VersionError: they belong to several.
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

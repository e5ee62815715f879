"""Whether a criterion was there before its records: what the runs' manifests hold of it.

A manifest holds the digests of the criteria of its own study alone. A run that a second study
shares, since it has the same point, was made for the first and cannot hold the second's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.claims.ledger import Criterion
from reports.selection import ReportRun


@dataclass(frozen=True, order=True)
class Made:
    """How runs were made, as far as it says why their manifests do not hold a criterion."""

    study: str
    """What they were made for; "" for no study."""
    keeps_criteria: bool
    """False of manifests from before they held criteria at all."""


@dataclass(frozen=True)
class Fixed:
    """How many of a criterion's runs hold it, hold another form of it, or do not hold it."""

    num_runs: int
    num_same: int
    changed: Mapping[Made, Sequence[str]]
    """Commits of the runs whose manifest has another digest for the criterion, one a run."""
    absent: Mapping[Made, Sequence[str]]
    """Commits of the runs whose manifest has none for it, one a run."""

    @property
    def before(self) -> bool:
        """Every run holds this very criterion: it was fixed before the measurement."""
        return 0 < self.num_runs == self.num_same


def when_fixed(name: str, criterion: Criterion, runs: Sequence[ReportRun]) -> Fixed:
    """What the manifests of the runs that were judged hold of their criterion.

    Args:
        name: what manifests call it.
        criterion: as the ledger has it now.
        runs: those judged.
    """
    changed: dict[Made, list[str]] = {}
    absent: dict[Made, list[str]] = {}
    num_same = 0
    for run in runs:
        manifest = run.stored.manifest
        held = (manifest.get("criteria") or {}).get(name)
        if held == criterion.digest:
            num_same += 1
            continue
        made = Made(run.study, "criteria" in manifest)
        commits = (absent if held is None else changed).setdefault(made, [])
        commits.append(str(manifest.get("git_commit") or "unknown")[:12])
    return Fixed(len(runs), num_same, changed, absent)

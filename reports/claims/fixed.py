"""Evidence in the runs' manifests that a criterion existed before its records.

A manifest has the digests of its own study's criteria only. A run that a second study shares, since
it has the same point, was made for the first study. Its manifest cannot hold the criteria of the
second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.claims.ledger import Criterion
from reports.runs.selection import ReportRun


@dataclass(frozen=True, order=True)
class Made:
    """Origin of runs, which can explain why their manifests lack a criterion."""

    study: str
    """Study that the runs were made for; "" for no study."""
    keeps_criteria: bool
    """False for manifests from a time at which manifests held no criteria."""


@dataclass(frozen=True)
class Fixed:
    """Numbers of a criterion's runs whose manifests have it, have another form of it, or lack
    it."""

    num_runs: int
    num_same: int
    changed: Mapping[Made, Sequence[str]]
    """Commits of the runs whose manifest has another digest for the criterion, one for each run."""
    absent: Mapping[Made, Sequence[str]]
    """Commits of the runs whose manifest has no digest for the criterion, one for each run."""

    @property
    def before(self) -> bool:
        """Return whether every manifest has this criterion, so that it is older than the
        records."""
        return 0 < self.num_runs == self.num_same


def when_fixed(name: str, criterion: Criterion, runs: Sequence[ReportRun]) -> Fixed:
    """Return which manifests of the judged runs have the criterion.

    Args:
        name: name of the criterion in manifests.
        criterion: criterion as the ledger has it now.
        runs: runs that were judged.
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

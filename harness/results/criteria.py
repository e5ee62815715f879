"""Criteria of a study, as they were when its runs were made.

The claims of the papers and the criteria that decide them are data, in ``reports/claims/``. A run's
manifest keeps a digest of every criterion that its study serves. So a report can distinguish a
criterion that was fixed before the measurement from one that was changed afterwards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.configuration.fast_yaml import read_yaml

LEDGER = Path(__file__).resolve().parents[2] / "reports" / "claims"
"""Folder of the claims, with one file per paper."""


def criteria_of(study: str | None) -> dict[str, str]:
    """Return digests of the criteria that judge the runs of a study; empty without a study.

    Args:
        study: its name, which is the stem of its file in ``configs/study/``.
    """
    found: dict[str, str] = {}
    for path in sorted(LEDGER.glob("*.yaml")) if study else ():
        text = path.read_text(encoding="utf-8")
        if f"study: {study}\n" in text:
            found.update(_criteria(read_yaml(text), str(study)))
    return found


def _criteria(document: Mapping[str, Any], study: str) -> Iterator[tuple[str, str]]:
    for claim in document["claims"]:
        for number, criterion in enumerate(claim.get("criteria") or (), 1):
            if criterion["study"] == study:
                yield name(claim["id"], number), digest(criterion)


def name(claim_id: str, number: int) -> str:
    """Return the name of a criterion in manifests: the claim's id and the criterion's number, from
    1."""
    return f"{claim_id}/{number}"


def digest(criterion: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a criterion: of its content, not of the layout of its file."""
    return hashlib.sha256(json.dumps(criterion, sort_keys=True).encode()).hexdigest()

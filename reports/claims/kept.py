"""Accepted verdicts, stored next to the records; the report fails if a verdict changes.

``verdicts.json`` in a folder of results holds the words of every verdict, with digests of its
criterion and of its records. If both digests are unchanged but the words differ, the change is due
to the code that judges. A person must then look at the verdict and accept it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.files.bounded_file import parse_json, read_text
from reports.claims.verdicts import ClaimVerdict

FILE = "verdicts.json"


def write(path: Path, verdicts: Sequence[ClaimVerdict]) -> None:
    """Write the verdicts to a file, by claim."""
    content = {verdict.claim.id: verdict.stored() for verdict in verdicts}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def changes(path: Path, verdicts: Sequence[ClaimVerdict]) -> Iterator[str]:
    """Yield a line for each verdict that differs from the accepted one, with a reason if known."""
    accepted: Mapping[str, Any] = parse_json(read_text(path))
    found = {verdict.claim.id: verdict.stored() for verdict in verdicts}
    for claim in sorted(accepted.keys() - found.keys()):
        yield f"{claim}: is no longer in the ledger"
    for claim, now in found.items():
        before = accepted.get(claim)
        if before is None:
            yield f"{claim}: is new in the ledger"
        elif before != now:
            yield f"{claim}: {_word(before)} → {_word(now)} ({_reason(before, now)})"


def _word(stored: Mapping[str, Any]) -> str:
    return str(stored["direction"] or stored["status"])


def _reason(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    reasons = {
        reason
        for name in {*before["criteria"], *now["criteria"]}
        for reason in _reasons(before["criteria"].get(name), now["criteria"].get(name))
    }
    return ", ".join(sorted(reasons)) or "neither its criteria nor its records changed"


def _reasons(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> Iterator[str]:
    if before is None or now is None:
        yield "other criteria"
        return
    if before["criterion"] != now["criterion"]:
        yield "another criterion"
    if before["records"] != now["records"]:
        yield "other records"

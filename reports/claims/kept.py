"""The verdicts as they were accepted, beside the records: a silent change is an error.

``verdicts.json`` in a folder of results holds the words of every verdict, with digests of the
criterion and of the records it was made from. If both are what they were and the words are
not, the code that judges has changed them: somebody must look, and accept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.bounded_file import parse_json, read_text
from reports.claims.verdicts import Verdict

FILE = "verdicts.json"


def write(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Keep the verdicts, by claim."""
    content = {verdict.claim.id: verdict.stored() for verdict in verdicts}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def changes(path: Path, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What is not as it was accepted: a line each, with the reason where there is one."""
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

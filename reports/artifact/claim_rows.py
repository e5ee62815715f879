"""Tables of claims: counts of verdicts for the README, and each claim for ``ARTIFACT.md``.

The row of a claim has the study or test that decides it, and its tolerance.
The table is derived from the ledger and the accepted verdicts. The table of studies above it has
the costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reports.claims import wording
from reports.claims.ledger import Claim, Criterion, Paper
from reports.claims.verdicts import Status

_HEAD = ("entry", "where in the paper", "as accepted", "decided by", "criterion and tolerance")
_MEASURES: Mapping[str, str] = {"trend": "slope", "group": "value"}
"""Shown names of measures, where they differ from the ledger's."""


def counts(papers: Sequence[Paper], accepted: Mapping[str, Any]) -> str:
    """Return a Markdown table of how many claims of each paper came to which verdict."""
    words = [word for word in wording.WORDS if word not in _OPEN]
    lines = [("paper", "entries", *(_PLURAL.get(word, word) for word in words))]
    for paper in papers:
        found = Counter(verdict(claim, accepted) for claim in paper.claims)
        numbers = (len(paper.claims), *(found[word] for word in words))
        lines.append((paper.short, *map(str, numbers)))
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], "|---" * len(lines[0]) + "|", *rows[1:]])


_OPEN = ("records awaited", "no study yet")
"""Verdicts that no accepted claim has; a test checks that."""
_PLURAL: Mapping[str, str] = {"holds": "hold", "fails": "fail"}


def table(paper: Paper, accepted: Mapping[str, Any]) -> Iterator[str]:
    """Yield the Markdown lines of the table, in a folded block.

    Args:
        paper: paper of the ledger.
        accepted: stored verdicts by claim.
    """
    yield f"\n<details><summary>The {len(paper.claims)} entries one by one</summary>\n"
    yield f"| {' | '.join(_HEAD)} |"
    yield "|---" * len(_HEAD) + "|"
    for claim in paper.claims:
        cells = (f"`{claim.id}`", claim.where, verdict(claim, accepted), *_decided(claim))
        yield f"| {' | '.join(_cell(text) for text in cells)} |"
    yield "\n</details>"


def verdict(claim: Claim, accepted: Mapping[str, Any]) -> str:
    """Return the accepted verdict in a word: the direction of a tested claim, else the status."""
    kept = accepted.get(claim.id) or {}
    return str(kept.get("direction") or kept.get("status") or Status.AWAITED.value)


def _decided(claim: Claim) -> tuple[str, str]:
    """Return the study, tests or input that decide a claim, and the condition under which it
    holds."""
    if claim.criteria:
        studies = dict.fromkeys(f"`study={each.study}`" for each in claim.criteria)
        return "<br>".join(studies), "<br>".join(map(terms, claim.criteria))
    if claim.checked_by:
        met = f"an input here: {claim.given}" if claim.given else "every test passes"
        return "<br>".join(f"`{node}`" for node in claim.checked_by), met
    return "nothing here", claim.not_here


def terms(criterion: Criterion) -> str:
    """Return a criterion's bound in words, with its margin around the paper's number."""
    measure = _MEASURES.get(criterion.measure, criterion.measure)
    shows = f"{criterion.what}: " if criterion.what else ""
    text = f"{shows}{measure} of `{criterion.metric}` {_bound(criterion)}"
    if criterion.is_fact:
        text += " in every run"
    if criterion.stated is None or criterion.margin is None:
        return text
    is_factor = criterion.measure == "ratio"
    margin = f"{'a factor of ' if is_factor else ''}{criterion.margin:g}"
    stated = wording.number(criterion.stated, criterion.measure)
    return f"{text}; equivalent within {margin} of the paper's {stated}"


def _bound(criterion: Criterion) -> str:
    ((kind, bound),) = criterion.holds_if.items()
    if kind != "within":
        return f"{kind} {bound:g}"
    low, high = bound
    return f"exactly {low:g}" if low == high else f"within {low:g} to {high:g}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

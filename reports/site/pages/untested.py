"""Page on the entries without a verdict, and on the requirements of a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from reports.claims import wording
from reports.claims.verdicts import ClaimVerdict, Status
from reports.drawing.figure import Table
from reports.site.pages.base import Material, Page, Section

STATES = (Status.NOT_HERE, Status.AWAITED, Status.OPEN)


def build(material: Material) -> Page:
    """Return the page, with a section for every paper."""
    missing = [verdict for verdict in material.verdicts if verdict.status in STATES]
    counts = {status: sum(v.status is status for v in missing) for status in STATES}
    return Page(
        name="untested",
        short="Not tested",
        title="Claims that are not tested",
        lead=f"{len(missing)} of {len(material.verdicts)} entries have no verdict: "
        f"{counts[Status.NOT_HERE]} cannot be tested here, {counts[Status.AWAITED]} await records "
        f"of an existing study, {counts[Status.OPEN]} await a study.",
        sections=[
            _section(
                paper.id, paper.short, [v for v in missing if v.claim.paper == paper.id],
                len(paper.claims),
            )
            for paper in material.papers
        ],
    )  # fmt: skip


def _section(paper: str, short: str, verdicts: Sequence[ClaimVerdict], num_entries: int) -> Section:
    rows, links = [], {}
    for verdict in sorted(verdicts, key=lambda each: STATES.index(each.status)):
        claim = verdict.claim
        links[claim.id] = f"{paper}.html#{claim.id}"
        rows.append([claim.id, claim.shows, wording.word(verdict).text, _needs(verdict)])
    return Section(
        name=f"untested-{paper}",
        title=short,
        text=f"{len(verdicts)} of {num_entries} entries.",
        table=Table(["entry", "claims", "state", "requirements"], rows) if rows else None,
        missing="" if rows else "every entry has a verdict.",
        is_prose=True,
        links=links,
    )


def _needs(verdict: ClaimVerdict) -> str:
    claim = verdict.claim
    if verdict.status is Status.NOT_HERE:
        return claim.not_here
    if verdict.status is Status.OPEN:
        return f"A study on {wording.needs(claim) or 'what the source used'}"
    texts = []
    for each in verdict.criteria:
        if each.direction is None:
            command = f"python -m harness study={each.criterion.study}"
            texts.append(f"{each.problem}: {command}" if each.problem else f"Records of: {command}")
    return "; ".join(dict.fromkeys(texts))

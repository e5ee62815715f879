"""The whole report: an overview, a page a paper, a page a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from reports import wording
from reports.claims.kept import FILE, write
from reports.claims.ledger import Paper
from reports.claims.verdicts import Verdict
from reports.selection import ReportRun

STUDIES = "studies"
"""Folder of the studies' pages."""
_OTHERS = "other"
"""Page of the runs that belong to no study."""

DrawStudy = Callable[[str, Sequence[ReportRun], Path, str], int]
"""Draws the page of a study into a folder, with a section about its claims; how many figures."""


def by_study(runs: Sequence[ReportRun]) -> dict[str, list[ReportRun]]:
    """Runs by the studies that have them, sorted; ``other`` for those that none has."""
    found: dict[str, list[ReportRun]] = {}
    for run in runs:
        for study in (run.study, *run.also_in) if run.study else run.also_in or (_OTHERS,):
            found.setdefault(study, []).append(run)
    return dict(sorted(found.items()))


def write_site(
    out: Path,
    command: str,
    papers: Sequence[Paper],
    verdicts: Sequence[Verdict],
    studies: Mapping[str, Sequence[ReportRun]],
    draw: DrawStudy,
) -> int:
    """Write the pages below ``out``; how many figures they have.

    Args:
        out: folder; files of the same names are written over.
        command: how the report was made.
        papers: the ledger.
        verdicts: one for each of its entries.
        studies: runs by study.
        draw: makes the page of a study.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    out.mkdir(parents=True, exist_ok=True)
    files = {study: f"{STUDIES}/{study}/index.html" for study in studies}
    pages = [
        {"file": "index.html", "name": "Overview"},
        *({"file": f"{paper.id}.html", "name": paper.short} for paper in papers),
    ]
    links = {
        verdict.claim.id: f"{verdict.claim.paper}.html#{verdict.claim.id}" for verdict in verdicts
    }
    rows: list[dict[str, Any]] = []
    for study, runs in studies.items():
        tested = [v for v in verdicts if study in {each.study for each in v.claim.criteria}]
        section = environment.get_template("tested.html").render(
            claims=[
                {
                    "link": f"../../{links[verdict.claim.id]}",
                    "where": f"{verdict.claim.paper}, {wording.short_where(verdict.claim.where)}",
                    "shows": verdict.claim.shows,
                    "word": wording.word(verdict),
                }
                for verdict in tested
            ],
            command=f"python -m harness study={study}" if study != _OTHERS else "",
        )
        num_figures = draw(study, runs, out / STUDIES / study, section)
        rows.append(
            {
                "name": study,
                "file": files[study],
                "num_runs": len(runs),
                "num_figures": num_figures,
                "num_claims": len(tested),
                "command": f"python -m harness study={study}" if study != _OTHERS else "",
            }
        )
    common = {"pages": pages, "command": command, "studies": rows}
    for paper in papers:
        own = [verdict for verdict in verdicts if verdict.claim.paper == paper.id]
        text = environment.get_template("paper.html").render(
            **common,
            title=f"{paper.short}: claims",
            here=f"{paper.id}.html",
            paper={**_named(paper), "counts": wording.counts(own)},
            summary=wording.summary(own),
            claims=[wording.claim(verdict, files) for verdict in own],
        )
        (out / f"{paper.id}.html").write_text(text, encoding="utf-8")
    text = environment.get_template("overview.html").render(
        **common,
        title="Elastrace: report",
        here="index.html",
        summary=wording.summary(verdicts),
        num_claims=len(verdicts),
        total=wording.counts(verdicts),
        papers=[
            {
                **_named(paper),
                "counts": wording.counts(v for v in verdicts if v.claim.paper == paper.id),
            }
            for paper in papers
        ],
        claims=[_row(verdict, papers, links) for verdict in verdicts],
    )
    (out / "index.html").write_text(text, encoding="utf-8")
    write(out / FILE, verdicts)
    return sum(row["num_figures"] for row in rows)


def _named(paper: Paper) -> dict[str, Any]:
    return {
        "file": f"{paper.id}.html",
        "short": paper.short,
        "title": paper.title,
        "authors": paper.authors,
    }


def _row(verdict: Verdict, papers: Sequence[Paper], links: Mapping[str, str]) -> dict[str, Any]:
    claim = verdict.claim
    short = next(paper.short for paper in papers if paper.id == claim.paper)
    texts = (claim.id, short, claim.where, claim.kind, claim.shows, claim.metric)
    return {
        "paper": short,
        "short_where": wording.short_where(claim.where),
        "shows": claim.shows,
        "word": wording.word(verdict),
        "link": links[claim.id],
        "search": " ".join(texts).lower(),
    }

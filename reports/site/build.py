"""Builder of the whole report: an overview, a page for each paper and study, and other pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from harness.results import verification_levels as levels
from reports.claims import wording
from reports.claims.claim_table import claim_table
from reports.claims.kept import FILE, write
from reports.claims.ledger import Paper
from reports.claims.verdicts import ClaimVerdict
from reports.drawing import table_files
from reports.runs import parallel as processes
from reports.runs.selection import ReportRun
from reports.site import about
from reports.site import system_tables as systems
from reports.site.page import downloads
from reports.site.pages import PAGES
from reports.site.pages.base import (
    Drawn,
    Material,
    Section,
    machines,
    overhead_records,
    plan_records,
)

STUDIES = "studies"
"""Folder of the studies' pages."""
_OTHERS = "other"
"""Name of the page with the runs that belong to no study."""

DrawStudy = Callable[[str, Sequence[ReportRun], Path, str], list[Drawn]]
"""Type of the function that draws a study's page. Its arguments are the folder and an HTML section
about claims; it returns the page's drawings."""


def by_study(runs: Sequence[ReportRun]) -> dict[str, list[ReportRun]]:
    """Return runs by each study that has them, sorted; runs of no study are under ``other``."""
    found: dict[str, list[ReportRun]] = {}
    for run in runs:
        for study in (run.study, *run.also_in) if run.study else run.also_in or (_OTHERS,):
            found.setdefault(study, []).append(run)
    return dict(sorted(found.items()))


def write_site(
    out: Path,
    command: str,
    papers: Sequence[Paper],
    verdicts: Sequence[ClaimVerdict],
    studies: Mapping[str, Sequence[ReportRun]],
    directories: Sequence[Path],
    draw: DrawStudy,
) -> int:
    """Write the pages below ``out`` and return the number of their figures.

    Args:
        out: folder; files of the same names are overwritten.
        command: command that makes the report.
        papers: the ledger.
        verdicts: one for each entry of the ledger.
        studies: runs by study.
        directories: folders of results, for records that are not runs.
        draw: function that makes the page of a study.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    out.mkdir(parents=True, exist_ok=True)
    links = {
        verdict.claim.id: f"{verdict.claim.paper}.html#{verdict.claim.id}" for verdict in verdicts
    }
    tested = {
        study: [v for v in verdicts if study in {each.study for each in v.claim.criteria}]
        for study in studies
    }
    template = environment.get_template("tested.html")

    def draw_one(study: str) -> list[Drawn]:
        claims = [
            {
                "link": f"../../{links[verdict.claim.id]}",
                "where": f"{verdict.claim.paper}, {wording.short_where(verdict.claim.where)}",
                "shows": verdict.claim.shows,
                "word": wording.word(verdict),
            }
            for verdict in tested[study]
        ]
        scales = about.stated_scales((verdict.claim for verdict in verdicts), study)
        section = template.render(claims=claims, scales=scales, command=_command(study))
        return draw(study, studies[study], out / STUDIES / study, section)

    # The longest studies begin first, so that none of them runs alone at the end.
    longest_first = sorted(studies, key=lambda study: -len(studies[study]))
    found = dict(zip(longest_first, processes.each(draw_one, longest_first), strict=True))
    material = Material(
        papers=papers,
        verdicts=verdicts,
        studies=studies,
        drawn=[drawn for study in studies for drawn in found[study]],
        overhead=overhead_records(directories),
        plans=plan_records(directories),
        machines=machines(directories),
    )
    files = material.links()
    topics = [build(material) for build in PAGES]
    common = {
        "command": command,
        "pages": [
            {"file": "index.html", "name": "Overview"},
            *({"file": f"{paper.id}.html", "name": paper.short} for paper in papers),
            *({"file": topic.file, "name": topic.short} for topic in topics),
        ],
        "studies": [
            {
                "name": study,
                "file": files[study],
                "num_runs": len(runs),
                "num_figures": sum(drawn.has_picture for drawn in found[study]),
                "num_claims": len(tested[study]),
                "command": _command(study),
            }
            for study, runs in studies.items()
        ],
    }
    for topic in topics:
        text = environment.get_template("topic.html").render(
            **common,
            title=topic.title,
            here=topic.file,
            lead=topic.lead,
            sections=[_section(section, out) for section in topic.sections],
        )
        (out / topic.file).write_text(text, encoding="utf-8")
    for paper in papers:
        own = [verdict for verdict in verdicts if verdict.claim.paper == paper.id]
        table = claim_table(own)
        saved = table_files.save(out / table_files.FOLDER, f"claims-{paper.id}", table)
        text = environment.get_template("paper.html").render(
            **common,
            title=f"{paper.short}: claims",
            here=f"{paper.id}.html",
            paper={**_named(paper), "counts": wording.counts(own)},
            summary=wording.summary(own),
            claims=[wording.claim(verdict, files) for verdict in own],
            downloads=Markup(downloads("All entries", saved, out)),
            levels=levels.MEANING,
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
        comparisons=[_comparison(each, out) for each in systems.compare(studies)],
        study_files=files,
        topics=[{"file": topic.file, "title": topic.title, "lead": topic.lead} for topic in topics],
    )
    (out / "index.html").write_text(text, encoding="utf-8")
    write(out / FILE, verdicts)
    return sum(drawn.has_picture for drawn in material.drawn)


def _command(study: str) -> str:
    return f"python -m harness study={study}" if study != _OTHERS else ""


def _section(section: Section, out: Path) -> dict[str, Any]:
    """Return a section of a page as its template needs it, and save its table to files."""
    table = links = ""
    if section.table is not None:
        saved = table_files.save(out / table_files.FOLDER, section.name, section.table)
        table, links = section.table.to_html(section.links), downloads("Table", saved, out)
    return {
        "name": section.name,
        "title": section.title,
        "text": section.text,
        "missing": section.missing,
        "is_prose": section.is_prose,
        "table": Markup(table),
        "downloads": Markup(links),
        "pictures": [
            {
                "file": f"{STUDIES}/{drawn.study}/figures/{drawn.name}.svg",
                "title": f"{drawn.study}: {drawn.title}",
                "page": f"{STUDIES}/{drawn.study}/index.html#{drawn.name}",
            }
            for drawn in section.pictures
            if (out / STUDIES / drawn.study / "figures" / f"{drawn.name}.svg").is_file()
        ],
    }


def _comparison(comparison: systems.Comparison, out: Path) -> dict[str, Any]:
    """Return a comparison of systems as its template needs it, and save its table to files."""
    table = comparison.table()
    own = [table.header.index(cell) for cell in comparison.header]
    saved = table_files.save(out / table_files.FOLDER, comparison.name, table)
    return {
        "name": comparison.name,
        "title": comparison.title,
        "text": comparison.text,
        "header": comparison.header,
        "is_text": [table.is_text(column) for column in own],
        "parts": comparison.parts,
        "downloads": Markup(downloads("Table", saved, out)),
    }


def _named(paper: Paper) -> dict[str, Any]:
    return {
        "file": f"{paper.id}.html",
        "short": paper.short,
        "title": paper.title,
        "authors": paper.authors,
    }


def _row(
    verdict: ClaimVerdict, papers: Sequence[Paper], links: Mapping[str, str]
) -> dict[str, Any]:
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

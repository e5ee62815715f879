"""Beside the name of a scheduler stands how far it was checked, wherever it is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest
import yaml
from matplotlib.text import Text
from sample_runs import write_run

from harness.results import verification_levels as levels
from harness.results.store import StoredRun
from reports.claims import ledger, wording
from reports.drawing import style
from reports.drawing.figure import Drawing
from reports.figures import FIGURES
from reports.runs.selection import labels, name, select
from tests.schedulers.world import scheduler_classes

BARE = re.compile(r"\b(fifo|uniform) /")
"""The name of a system without the level."""


def test_the_table_is_what_the_classes_say() -> None:
    """A new class or level needs its line in ``verification_levels.yaml``."""
    said: dict[str, Mapping[str, object]] = {}
    for each in scheduler_classes():
        bound = {"oracle": True} if getattr(each, "oracle", False) else {}
        said[f"{each.__module__}.{each.__name__}"] = {"checked": each.checked, **bound}
    assert yaml.safe_load(levels.TABLE.read_text(encoding="utf-8")) == said


def decided_by(run: StoredRun, target: str, said: object = None) -> StoredRun:
    """The run under another class; ``said``: what its manifest says of the class, if anything."""
    manifest = {key: value for key, value in run.manifest.items() if key != "scheduler"}
    if said is not None:
        manifest["scheduler"] = said
    return replace(run, manifest=manifest, config={**run.config, "scheduler": {"_target_": target}})


def test_a_manifest_says_the_level_of_its_run_and_the_table_that_of_older_ones(
    tmp_path: Path,
) -> None:
    run = write_run(tmp_path)
    sia, srtf = "systems.schedulers.sia.scheduler.Sia", "systems.schedulers.srtf.Srtf"
    assert levels.of_run(decided_by(run, sia)) == "described"
    assert levels.of_run(decided_by(run, sia, {"checked": "exact"})) == "exact"
    assert levels.of_run(decided_by(run, srtf)) == "bound, compared"
    assert levels.of_run(decided_by(run, "elsewhere.Ours")) == "unchecked"
    assert levels.of_run(decided_by(run, sia, {"checked": None})) == "unchecked"


def test_variants_of_a_class_have_its_level() -> None:
    assert levels.of_choice("tiresias_gittins") == levels.of_choice("tiresias") == "compared"
    assert levels.of_choice("static_share") == levels.of_choice("fifo") == "exact"
    assert levels.of_choice("no_such") == "unchecked"


def test_a_system_is_grouped_by_its_name_and_shown_with_its_level(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    both = name(decided_by(run, "X", {"checked": level}) for level in ("exact", "described"))
    assert {run.system for run in both} == {"fifo / stop_resume"}, "a level makes no other system"
    assert {run.label for run in both} == {
        "fifo (exact) / stop_resume",
        "fifo (described) / stop_resume",
    }
    assert labels(both) == {"fifo / stop_resume": "fifo (described or exact) / stop_resume"}


def shown(drawing: Drawing) -> list[str]:
    """All that a drawing says."""
    texts = [drawing.title, drawing.caption, drawing.missing]
    if drawing.figure is not None:
        texts += [text.get_text() for text in drawing.figure.findobj(Text)]
    if drawing.table is not None:
        texts += [*drawing.table.header, *(cell for row in drawing.table.rows for cell in row)]
    return texts


@pytest.fixture(scope="module")
def texts(full_store: Path) -> dict[str, list[str]]:
    """What every figure says of two schedulers."""
    runs = select([full_store])
    with mpl.rc_context(style.RC):
        return {
            figure: [text for drawing in draw(runs) for text in shown(drawing)]
            for figure, draw in ((name, each.draw) for name, each in FIGURES.items())
        }


def test_no_figure_names_a_scheduler_without_its_level(texts: dict[str, list[str]]) -> None:
    assert not [text for own in texts.values() for text in own if BARE.search(text)]


@pytest.mark.parametrize(
    "figure",
    [
        "comparison",
        "jct_distribution",
        "jobs_completed",
        "same_inputs",
        "simulated_against_live",
        "slots_in_use",
        "timeline",
    ],
)
def test_the_figures_of_schedulers_name_them(figure: str, texts: dict[str, list[str]]) -> None:
    for scheduler in ("fifo (exact) /", "uniform (exact) /"):
        assert any(scheduler in text for text in texts[figure])


def test_no_page_names_a_scheduler_without_its_level(full_site: Path) -> None:
    pages = [*full_site.rglob("*.html"), *full_site.rglob("*.md"), *full_site.rglob("*.csv")]
    assert len(pages) > 10
    assert not [page for page in pages if BARE.search(page.read_text(encoding="utf-8"))]
    (study,) = (full_site / "studies").iterdir()
    text = (study / "index.html").read_text(encoding="utf-8")
    assert "fifo (exact) / stop_resume" in text
    assert "followed by its verification level" in text


def test_the_rules_of_claims_name_schedulers_with_their_levels() -> None:
    rules = [
        (criterion, wording.rule(criterion))
        for paper in ledger.load()
        for claim in paper.claims
        for criterion in claim.criteria
    ]
    named = re.compile(r"scheduler=\w+(?: \([a-z, ]+\))?")
    found = [text for _, rule in rules for text in named.findall(rule)]
    assert "scheduler=elasticflow (exact)" in found
    assert not [text for text in found if not text.endswith(")") or "unchecked" in text]

"""A study's page begins with its answer; all but one or two figures are folded below it."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

from sample_runs import write_run

from harness.answer.answer import answer
from harness.answer.block import MOST_COLUMNS, Block
from reports.figures import FIGURES
from reports.runs.selection import ReportRun, select
from reports.site import page_figures
from reports.site.page import answer_html


def test_a_page_begins_with_the_answer_then_figures_then_folded_parts(
    full_site: Path, full_store: Path
) -> None:
    text = (full_site / "studies" / "demo" / "index.html").read_text(encoding="utf-8")
    block = answer([run.stored for run in select([full_store])])
    assert block is not None
    assert 0 < len(block.header) <= MOST_COLUMNS
    places = [text.index(f"<p>{html.escape(sentence)}</p>") for sentence in block.sentences]
    places += [text.index(f">{html.escape(heading)}</th>") for heading in block.header]
    places += [text.index('<div class="card">'), text.index('id="conditions"')]
    places += [text.index("<details class=fold>"), text.index('<section id="runs">')]
    assert places == sorted(places)
    unfolded = text[: text.index('id="conditions"')]
    assert 1 <= unfolded.count('<div class="card">') <= 2
    assert "timeline-1" not in re.findall(r'<section id="([^"]+)"', unfolded)
    folded = text[text.index("<details class=fold>") :]
    assert {"timeline-1", "comparison-1"} <= {*re.findall(r'<section id="([^"]+)"', folded)}


def test_an_answer_is_text_and_never_markup() -> None:
    name = '<img src=x onerror="alert(1)">'
    shown = answer_html(Block((f"{name} is best.",), ("system", name), ((name, "1"),), name))
    assert "<img" not in shown
    assert shown.count("&lt;img") == 4


def test_a_sweep_over_a_number_gets_the_figure_over_it(tmp_path: Path) -> None:
    runs = [
        with_load(select([write_run(tmp_path / str(load), scheduler=name).path])[0], load)
        for load in (0.3, 0.9, 1.5)
        for name in ("fifo", "uniform")
    ]
    found = page_figures.draw(runs, ())
    assert found.drawings[0][0] == "sensitivity"
    assert found.drawings[0][1].title == "Sensitivity to load"
    seeds = [write_run(tmp_path / "seeds", seed=seed) for seed in range(3)]
    assert len(seeds) == 3
    assert "sensitivity" not in dict(page_figures.draw(select([tmp_path / "seeds"]), ()).drawings)
    assert FIGURES["sensitivity"].carries_answer


def with_load(run: ReportRun, load: float) -> ReportRun:
    config = {**run.stored.config, "trace": {"transforms": [{"load": load}]}}
    manifest = {**run.stored.manifest, "run_id": f"{run.run_id}-{load}"}
    return replace(run, stored=replace(run.stored, config=config, manifest=manifest))

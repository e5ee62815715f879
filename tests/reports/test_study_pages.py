"""A study's page says what it compares and at what scale, and which runs a figure is drawn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import yaml
from sample_runs import write_run
from test_report import read_page

from reports import about
from reports.__main__ import main
from reports.claims import ledger
from reports.selection import STUDIES, select


def draw_site(runs: Path, out: Path) -> None:
    assert main(["--results", str(runs), "--out", str(out), "--formats", "svg"]) == 0


def test_description_is_that_of_the_studys_file() -> None:
    for path in STUDIES.glob("*.yaml"):
        described = yaml.safe_load(path.read_text(encoding="utf-8"))["description"]
        assert about.description(path.stem) == " ".join(described.split()) != ""
    assert about.description("no-study") == ""


def test_scale_is_of_the_runs(full_store: Path) -> None:
    runs = select([full_store])
    live = [run for run in runs if run.is_live]
    assert about.scale([run for run in runs if not run.is_live][:1]) == (
        "1 run simulated, 12 jobs on 4 slots"
    )
    where = "tiny workloads, on Example CPU, 2 cores"
    assert about.scale(live) == f"10 runs live, 12 jobs on 4 slots, {where}"
    emulated = {**live[0].stored.config, "engine": {"pace": "profile"}}
    facts = replace(
        live[0].stored, config=emulated, metrics={**live[0].metrics, "jobs_submitted": 1500.0}
    )
    slowed = replace(live[0], stored=facts)
    assert about.scale([slowed, *live[1:3]]) == (
        f"2 runs live, 12 jobs on 4 slots, {where};"
        f" 1 run live at emulated pace, 1,500 jobs on 4 slots, {where}"
    )


def test_scales_are_those_of_the_criteria_each_once() -> None:
    claims = [claim for paper in ledger.load() for claim in paper.claims]
    found = about.stated_scales(claims, "edl_table3")
    assert found == [*dict.fromkeys(found)] != []
    criteria = [each for claim in claims for each in (*claim.criteria, *claim.ablations)]
    assert {each.scale for each in criteria if each.study == "edl_table3" and each.scale} == {
        *found
    }


def test_a_figures_runs_lead_to_their_facts_and_manifests(tmp_path: Path) -> None:
    stored = [
        write_run(tmp_path / "runs", sweep="elasticflow_fig6", scheduler=name)
        for name in ("fifo", "edf")
    ]
    draw_site(tmp_path / "runs", tmp_path / "site")
    path = tmp_path / "site" / "studies" / "elasticflow_fig6" / "index.html"
    page, text = read_page(path), path.read_text(encoding="utf-8")
    for run in stored:
        assert f"run-{run.run_id}" in page.ids
        assert page.links.count(f"#run-{run.run_id}") == 3  # of every figure of the study
        assert f"<dd>{run.path / 'manifest.json'}</dd>" in text
    assert text.count("Drawn from 2 runs") == 3
    assert text.count("Scale: 2 runs simulated, 12 jobs on 4 slots.") == 3
    assert about.description("elasticflow_fig6")[:60] in text
    assert "Scale: the paper&#39;s, and here" in text or "Scale: the paper's, and here" in text

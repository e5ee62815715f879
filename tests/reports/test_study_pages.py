"""A study's page says what it compares and at what scale, and which runs a figure is drawn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from sample_runs import write_run
from test_report import read_page

from harness.configuration.compose import option_files
from reports.__main__ import main
from reports.claims import ledger
from reports.figures import FIGURES
from reports.runs.selection import select
from reports.site import about, page_figures

LEFT_OUT = {"grants": 9, "changes": 9, "decisions": 9}


def draw_site(runs: Path, out: Path) -> None:
    assert main(["--results", str(runs), "--out", str(out), "--formats", "svg"]) == 0


def test_description_is_that_of_the_studys_file() -> None:
    for study, path in option_files("study").items():
        described = yaml.safe_load(path.read_text(encoding="utf-8"))["description"]
        assert about.description(study) == " ".join(described.split()) != ""
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
        # Of every figure of the study but one: no job was refused.
        assert page.links.count(f"#run-{run.run_id}") == 4
        assert f"<dd>{run.path / 'manifest.json'}</dd>" in text
    assert text.count("Drawn from 2 runs") == 4
    assert text.count("Scale: 2 runs simulated, 12 jobs on 4 slots.") == 4
    assert about.description("elasticflow_fig6")[:60] in text
    assert "Scale: the paper&#39;s, and here" in text or "Scale: the paper's, and here" in text


def test_figures_without_their_tables_are_named_and_left_out(tmp_path: Path) -> None:
    for name in ("fifo", "edf"):
        write_run(tmp_path / "runs", sweep="elasticflow_fig6", scheduler=name, left_out=LEFT_OUT)
    draw_site(tmp_path / "runs", tmp_path / "site")
    path = tmp_path / "site" / "studies" / "elasticflow_fig6" / "index.html"
    text = path.read_text(encoding="utf-8")
    assert (
        "Not drawn, because no run has their tables: slots_in_use; all 2 runs were copied"
        " without tables: grants." in text
    )
    ids = read_page(path).ids
    assert [each for each in ids if each.startswith("slots")] == []
    assert {"jct-distribution-1", "comparison-1"} <= {*ids}  # they need no grants
    assert "No run was selected" not in text


def test_figures_of_a_part_of_the_runs_say_so(tmp_path: Path) -> None:
    write_run(tmp_path, scheduler="fifo", left_out=LEFT_OUT)
    write_run(tmp_path, scheduler="edf")
    found = page_figures.draw(select([tmp_path]), ["slots_in_use", "jct_distribution"])
    assert found.note == (
        "Drawn from some of the runs: slots_in_use (1 of 2); the others were copied without tables:"
        " grants."
    )
    shown = {name: drawing.run_ids for name, drawing in found.drawings}
    assert [len(shown[name]) for name in ("slots_in_use", "jct_distribution")] == [1, 2]


def test_whole_runs_need_no_note(full_store: Path) -> None:
    assert page_figures.draw(select([full_store]), ["jct_distribution"]).note == ""


@pytest.mark.parametrize(
    "name", ["comparison", "jct_distribution", "jobs_completed", "slots_in_use"]
)
def test_figures_need_no_table_beyond_those_named(name: str, tmp_path: Path) -> None:
    every = {"jobs", "grants", "changes", "decisions", "outages", "latencies"}
    spare = dict.fromkeys(sorted(every - set(FIGURES[name].tables)), 9)
    write_run(tmp_path, scheduler="fifo", left_out=spare)
    assert not FIGURES[name].draw(select([tmp_path]))[0].missing


@pytest.mark.long
def test_what_another_machine_measured_of_the_same_points_is_told(tmp_path: Path) -> None:
    for place, cpu in (("a", "Example CPU"), ("b", "Other(R) Processor")):
        hardware = {"cpu": cpu, "cores": 2, "memory_bytes": 8 << 30, "accelerators": []}
        for live in (True, False):
            write_run(tmp_path / place, live=live, sweep="edl_rescale", hardware=hardware)
    runs = select([tmp_path])
    assert [run.also_on for run in runs] == [("other-2cpu",), ()]  # replays are the same anywhere
    draw_site(tmp_path, tmp_path / "site")
    path = tmp_path / "site" / "studies" / "edl_rescale" / "index.html"
    told = "Not shown: 1 run of other-2cpu, whose points are shown from another machine"
    assert told in path.read_text(encoding="utf-8")
    other = select([tmp_path / "b", tmp_path / "a"])
    assert [run.also_on for run in other] == [("example-2cpu",), ()]
    draw_site(tmp_path / "a", tmp_path / "site")
    assert "Not shown" not in path.read_text(encoding="utf-8")

"""What documents list is what there is."""

import json
import re
from collections import Counter
from statistics import median

import pytest
import yaml

from harness.configuration.compose import options
from harness.configuration.study import read_study
from harness.results.store import iter_runs
from reports.artifact.claim_rows import verdict
from reports.claims.ledger import load
from reports.claims.wording import WORDS
from reports.drawing.style import RC
from reports.figures import FIGURES
from tests.artifact.shown import ROOT
from tests.schedulers.world import built

CLAIMS_PAGE = "docs/reference/claims.md"


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("document", "group"),
    [
        ("README.md", "backend"),
        ("docs/reference/configuration.md", "profile"),
    ],
)
def test_every_option_is_listed(document, group):
    named = set(re.findall(r"`(\w+)`", text(document)))
    assert not set(options(group)) - named


def test_the_study_that_is_shown_could_be_one(tmp_path):
    (block,) = re.findall(
        r"```yaml\n(description:.*?)```", text("docs/reference/configuration.md"), re.DOTALL
    )
    study = read_study(tmp_path / "mine.yaml", yaml.safe_load(block))
    assert study.figures
    assert set(study.figures) <= set(FIGURES)


def test_how_letters_are_kept_is_how_figures_are_drawn():
    assert "in the PDF text stays\ntext, in the SVG letters are outlines" in text(CLAIMS_PAGE)
    assert (RC["pdf.fonttype"], RC["svg.fonttype"]) == (42, "path")


def test_the_number_of_test_workers_is_the_makefiles():
    (count,) = re.findall(r"^TEST_JOBS \?= (\d+)$", text("Makefile"), re.MULTILINE)
    words = {"2": "two", "3": "three", "4": "four"}
    assert f"on {words[count]} workers (`TEST_JOBS`)" in text("CONTRIBUTING.md")


def test_the_verdicts_in_the_readme_are_the_accepted_ones():
    accepted = json.loads(text("results/reference/verdicts.json"))
    words = [word for word in WORDS if word not in ("records awaited", "no study yet")]
    for paper in load():
        found = Counter(verdict(claim, accepted) for claim in paper.claims)
        row = (paper.short, len(paper.claims), *(found[word] for word in words))
        assert f"| {' | '.join(map(str, row))} |\n" in text("README.md")
        assert not set(found) - set(words)


def test_the_readme_counts_schedulers_and_models():
    page = " ".join(text("README.md").split())
    pool = yaml.safe_load(text("configs/workload/tiny.yaml"))["pool"]
    assert f"[{len(options('scheduler'))} schedulers](docs/reference/schedulers.md)" in page
    assert f" {len(pool)} models " in page


def test_the_readme_is_short():
    """Its first screen has the commands, the picture, the findings and what a reader can do."""
    page = text("README.md")
    assert len(page.split()) < 900
    screen = page.splitlines()[:45]
    for line in ("make run", "![", "## What it found", "## Can I"):
        assert any(each.startswith(line) for each in screen), line


def test_the_time_of_make_run_is_that_on_record():
    (row,) = re.findall(r"^\| `study=main` \| (.*) \|$", text("ARTIFACT.md"), re.MULTILINE)
    (minutes,) = re.findall(r"(\d+) min", row)
    assert f"took {minutes} minutes on two cores" in text("README.md")


def test_every_scheduler_is_in_its_table_with_what_it_needs():
    table, _, _ = text("docs/reference/schedulers.md").partition("## What differs")
    rows = re.findall(r"^\| (`.*?`) \| .*? \| (\w+) \| (.*?)\| (.*?)\|$", table, re.MULTILINE)
    shown = {name: row[1:] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert set(shown) == set(options("scheduler"))
    for name, (level, told, asked) in shown.items():
        scheduler = built("scheduler", name)
        needs = {need.replace("_", " ") for need in scheduler.needs}
        requires = {need.replace("_", " ") for need in scheduler.requires}
        assert level == type(scheduler).checked, name
        assert {*filter(None, told.strip().split(", "))} == needs, name
        assert {*filter(None, asked.strip().split(", "))} == requires, name


def test_stops_by_size_of_state_are_those_on_record():
    """The first row of the table that opens the page on rescales."""
    page = text("docs/measurements/rescale-cost.md")
    medians = sorted(
        median(
            1000 * change.stopping_time_s
            for change in run.records.changes
            if change.kind == "rescale" and len(change.to_slots) > len(change.from_slots)
        )
        for run in iter_runs(ROOT / "results/reference/amd-epyc-2cpu/edl_state_size")
        if run.config["backend"].get("transfer") == "background"
    )
    shown = re.findall(r"^\| \d+ [MG]B \| [\d.]+ ms \| ([\d.]+) ms \|", page, re.MULTILINE)
    assert sorted(shown, key=float) == [f"{each:.1f}" for each in medians]

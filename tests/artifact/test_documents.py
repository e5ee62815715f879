"""What documents list is what there is."""

import re

import pytest
import yaml

from harness.compose import options
from harness.study import read_study
from reports.figures import FIGURES
from reports.style import RC
from tests.artifact.shown import ROOT


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("document", "group"),
    [("README.md", "scheduler"), ("README.md", "backend"), ("docs/configuration.md", "profile")],
)
def test_every_option_is_listed(document, group):
    named = set(re.findall(r"`(\w+)`", text(document)))
    assert not set(options(group)) - named


def test_the_study_that_is_shown_could_be_one(tmp_path):
    (block,) = re.findall(
        r"```yaml\n(description:.*?)```", text("docs/configuration.md"), re.DOTALL
    )
    study = read_study(tmp_path / "mine.yaml", yaml.safe_load(block))
    assert study.figures
    assert set(study.figures) <= set(FIGURES)


def test_how_letters_are_kept_is_how_figures_are_drawn():
    assert "in the PDF text stays\ntext, in the SVG letters are outlines" in text("docs/claims.md")
    assert (RC["pdf.fonttype"], RC["svg.fonttype"]) == (42, "path")


def test_the_number_of_test_workers_is_the_makefiles():
    (count,) = re.findall(r"^TEST_JOBS \?= (\d+)$", text("Makefile"), re.MULTILINE)
    words = {"2": "two", "3": "three", "4": "four"}
    assert f"on {words[count]} workers (`TEST_JOBS`)" in text("CONTRIBUTING.md")

"""The tables of ARTIFACT.md that have every claim in a row."""

import json
import re

import pytest

from reports.artifact import claim_rows as artifact_claims
from reports.claims.ledger import Criterion, load
from tests.artifact.shown import ROOT

CLAIMS = {claim.id: claim for paper in load() for claim in paper.claims}


@pytest.fixture(scope="module")
def rows():
    """The cells of every entry's row, by its id, in the order of the page."""
    page = (ROOT / "ARTIFACT.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", page, flags=re.MULTILINE)
    assert len(found) == len(dict(found))
    return {claim: row.split(" | ") for claim, row in found}


def test_every_entry_of_the_ledger_has_a_row_in_its_order(rows):
    assert list(rows) == list(CLAIMS)
    assert {len(cells) for cells in rows.values()} == {4}


def test_it_says_where_it_is_claimed_and_the_accepted_verdict(rows):
    accepted = json.loads((ROOT / "results/reference/verdicts.json").read_text(encoding="utf-8"))
    for claim, (where, word, *_) in rows.items():
        assert where == CLAIMS[claim].where
        assert word == (accepted[claim]["direction"] or accepted[claim]["status"]), claim
    assert len({word for _, word, *_ in rows.values()}) > 3


def test_it_names_what_decides_it_and_nothing_else(rows):
    for claim, (*_, decided_by, _) in rows.items():
        entry = CLAIMS[claim]
        named = re.findall(r"`([^`]+)`", decided_by)
        studies = [f"study={each.study}" for each in entry.criteria]
        assert named == list(dict.fromkeys([*studies, *entry.checked_by])), claim
        assert bool(named) != bool(entry.not_here), claim


def test_every_criterion_has_its_terms_in_the_row(rows):
    for claim, (*_, text) in rows.items():
        metrics = re.findall(r" of `(\w+)` (?:above|below|within|exactly) ", text)
        assert metrics == [each.metric for each in CLAIMS[claim].criteria]
        assert text.count("<br>") == max(len(CLAIMS[claim].criteria) - 1, 0), claim
        stated = [each for each in CLAIMS[claim].criteria if each.stated is not None]
        assert text.count("equivalent within") == len(stated), claim


@pytest.mark.parametrize(
    ("own", "terms"),
    [
        (
            {"measure": "ratio", "holds_if": {"above": 1.0}, "stated": 8.0, "margin": 1.25},
            "mean: ratio of `jobs` above 1; equivalent within a factor of 1.25 of the paper's 8×",
        ),
        (
            {"measure": "difference", "holds_if": {"above": 0}, "stated": 0.307, "margin": 0.1},
            "mean: difference of `jobs` above 0; equivalent within 0.1 of the paper's 0.307",
        ),
        (
            {"measure": "value", "holds_if": {"within": [0.4, 0.6]}},
            "mean: value of `jobs` within 0.4 to 0.6",
        ),
        (
            {"measure": "trend", "holds_if": {"below": 0.0}},
            "mean: slope of `jobs` below 0",
        ),
        (
            {"measure": "group", "holds_if": {"within": [0, 0]}, "is_fact": True},
            "mean: value of `jobs` exactly 0 in every run",
        ),
        (
            {"measure": "value", "holds_if": {"below": 1.0}, "what": ""},
            "value of `jobs` below 1",
        ),
    ],
)
def test_terms_in_words(own, terms):
    values = {"study": "s", "metric": "jobs", "of": {}, "what": "mean"}
    assert artifact_claims.terms(Criterion(**{**values, **own})) == terms

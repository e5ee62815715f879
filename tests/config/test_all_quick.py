"""``study=all_quick``: it has what its description and its comment say."""

from harness.configuration.compose import option_files, options
from harness.configuration.help import first_comment
from harness.configuration.study import load_study
from reports.claims.ledger import load

COMMENT = first_comment(option_files("study")["all_quick"].read_text(encoding="utf-8"))
OWN = load_study("all_quick").studies
DECIDING = {each.study for paper in load() for claim in paper.claims for each in claim.criteria}


def test_every_study_that_decides_a_claim_is_in_it_or_named_as_left_out():
    named = {word.strip(".,;:") for word in COMMENT.partition("Left out")[2].split(". ")[0].split()}
    left_out = named & set(options("study"))
    assert left_out
    assert left_out == DECIDING - set(OWN)


def test_what_decides_no_claim_in_it_is_named():
    assert all(f"{study} decides no claim" in COMMENT for study in set(OWN) - DECIDING)


def test_what_runs_whole_is_simulated():
    whole = [study for study in map(load_study, OWN) if not study.quick]
    assert len(whole) > 5
    words = [word for s in whole for point in s.points() for word in (*s.base, *point.overrides)]
    assert not [word for word in words if word.startswith("engine=live")]
    assert all("engine=simulated" in study.base for study in whole)

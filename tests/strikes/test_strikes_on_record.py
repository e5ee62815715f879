"""The record of strikes from outside: enough, of every kind, on every backend."""

from harness.strikes.__main__ import read_trials
from harness.strikes.plan import BACKENDS, Victim
from tests.artifact.shown import ROOT


def test_every_trial_on_record_ended_right():
    (path,) = (ROOT / "results" / "reference").glob("*/outside_strikes/trials.jsonl")
    trials = read_trials(path).values()
    assert [trial["number"] for trial in trials if not trial["is_right"]] == []
    assert {trial["backend"] for trial in trials} == set(BACKENDS)
    struck = [each for trial in trials for run in trial["commands"] for each in run["struck"]]
    assert {each["victim"] for each in struck} == {victim.value for victim in Victim}
    assert len(struck) >= 500
    page = (ROOT / "docs" / "explanation" / "reliability.md").read_text(encoding="utf-8")
    assert f"{len(struck)} strikes in {len(trials)} trials" in page

"""Verdicts turn when systems change their labels or records are scaled, and only then."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from sample_runs import write_run

from harness.configuration.compose import options
from harness.errors import UserError
from harness.results import store
from harness.results.criteria import LEDGER, criteria_of, digest, name
from reports.__main__ import main
from reports.claims import kept, ledger, wording
from reports.claims.fixed import Fixed, Made
from reports.claims.ledger import PAPERS, Claim, Criterion
from reports.claims.verdicts import (
    ClaimVerdict,
    Direction,
    Fidelity,
    Magnitude,
    Status,
    interval,
    judge,
    judge_one,
)
from reports.runs.selection import ReportRun, select
from reports.site.build import by_study

REFERENCE = Path(__file__).parents[2] / store.REFERENCE
CLAIMS_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "claims.md"
SOURCE = {
    "study": "demo",
    "measure": "ratio",
    "metric": "jct_mean_s",
    "of": {"scheduler": "uniform"},
    "over": {"scheduler": "fifo"},
    "holds_if": {"above": 1.5},
    "stated": 2.0,
    "margin": 1.1,
}


def criterion(**changes):
    source = {key: value for key, value in {**SOURCE, **changes}.items() if value is not None}
    return Criterion(**{**source, "each": tuple(source.get("each", ()))}, source=source)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Five live trials and a simulated one of two schedulers."""
    root = tmp_path_factory.mktemp("runs")
    for scheduler in ("fifo", "uniform"):
        write_run(root, scheduler=scheduler)
        for repetition in range(5):
            write_run(root, scheduler=scheduler, live=True, repetition=repetition)
    return select([root])


def with_jct(runs, **jct_s):
    """The runs with other completion times: as given by scheduler, and a little spread."""
    return [
        replace(run, stored=replace(run.stored, metrics={"jct_mean_s": value}))
        for run in runs
        for value in [jct_s[run.stored.config["choices"]["scheduler"]] * (1 + 0.01 * run.trial[1])]
    ]


@pytest.fixture
def live(stored):
    return [run for run in stored if run.is_live]


@pytest.fixture
def simulated(stored):
    return [run for run in stored if not run.is_live]


def test_labels_and_scale_decide(live):
    runs = with_jct(live, uniform=200.0, fifo=100.0)
    verdict = judge_one("x/1", criterion(), runs, 10)
    (cell,) = verdict.cells
    assert (verdict.direction, cell.magnitude) == (Direction.HOLDS, Magnitude.EQUIVALENT)
    assert cell.value == pytest.approx(2.0)
    assert cell.num_trials == 5
    assert verdict.fidelity is Fidelity.LIVE
    assert len(verdict.run_ids) == 10
    swapped = criterion(of=SOURCE["over"], over=SOURCE["of"])
    assert judge_one("x/1", swapped, runs, 10).direction is Direction.FAILS
    # The same records with the systems' names exchanged.
    other = {"fifo": "uniform", "uniform": "fifo"}
    exchanged = [
        with_manifest(run, choices={**choices, "scheduler": other[choices["scheduler"]]})
        for run in runs
        for choices in [run.stored.config["choices"]]
    ]
    verdict = judge_one("x/1", criterion(), exchanged, 10)
    assert verdict.direction is Direction.FAILS
    assert verdict.cells[0].value == pytest.approx(0.5)
    slower = with_jct(live, uniform=300.0, fifo=100.0)
    verdict = judge_one("x/1", criterion(), slower, 10)
    assert verdict.direction is Direction.HOLDS
    assert verdict.magnitudes == (Magnitude.STRONGER,)
    quicker = with_jct(live, uniform=140.0, fifo=100.0)
    verdict = judge_one("x/1", criterion(), quicker, 10)
    assert (verdict.direction, verdict.magnitudes) == (Direction.FAILS, (Magnitude.WEAKER,))


def test_what_spreads_over_the_bound_is_not_distinguishable(live):
    runs = [
        replace(run, stored=replace(run.stored, metrics={"jct_mean_s": jct_s}))
        for run in live
        for is_fifo in [run.stored.config["choices"]["scheduler"] == "fifo"]
        for jct_s in [100.0 if is_fifo else 130.0 + 10.0 * run.trial[1]]
    ]
    assert judge_one("x/1", criterion(), runs, 10).direction is Direction.UNDECIDED


def test_one_measured_trial_decides_nothing_one_replay_does(live, simulated):
    one = [run for run in with_jct(live, uniform=900.0, fifo=1.0) if run.trial == (0, 0)]
    assert judge_one("x/1", criterion(), one, 1).direction is Direction.ONE_TRIAL
    exact = judge_one("x/1", criterion(), with_jct(simulated, uniform=200.0, fifo=100.0), 1)
    assert exact.direction is Direction.HOLDS
    assert exact.cells[0].low == exact.cells[0].high
    assert exact.fidelity is Fidelity.PUBLISHED
    fact = criterion(measure="value", over=None, holds_if={"within": [900, 900]}, is_fact=True)
    assert judge_one("x/1", fact, one, 1).direction is Direction.HOLDS


def test_differences_values_and_trends(simulated, live):
    runs = with_jct(simulated, uniform=200.0, fifo=100.0)
    for measure, changes, expected in (
        ("difference", {"holds_if": {"above": 50.0}}, 100.0),
        ("value", {"over": None, "holds_if": {"below": 300.0}}, 200.0),
    ):
        bare = {"measure": measure, "stated": None, "margin": None}
        verdict = judge_one("x/1", criterion(**bare, **changes), runs, 1)
        assert (verdict.direction, verdict.cells[0].value) == (Direction.HOLDS, expected)
        assert verdict.magnitudes == ()
    trend = criterion(
        measure="trend", of={"scheduler": "fifo"}, over=None, along="scheduler.quantum_s",
        holds_if={"below": 0.0}, stated=None, margin=None,
    )  # fmt: skip
    points = []
    for repetition in (0, 1, 2):
        (run,) = [
            run
            for run in with_jct(live, uniform=1.0, fifo=1.0)
            if run.trial == (0, repetition) and "fifo" in run.run_id
        ]
        for quantum_s in (10, 20, 30):
            config = {**run.stored.config, "scheduler": {"quantum_s": quantum_s}}
            jct_s = 100.0 - 2.0 * quantum_s + 0.01 * repetition * quantum_s
            made = replace(run.stored, config=config, metrics={"jct_mean_s": jct_s})
            points.append(replace(run, stored=made))
    verdict = judge_one("x/1", trend, points, 1)
    assert verdict.direction is Direction.HOLDS
    assert verdict.cells[0].value == pytest.approx(-1.99)


def test_a_criterion_that_does_not_say_which_runs_is_told(stored):
    verdict = judge_one("x/1", criterion(), stored, 1)
    assert verdict.direction is None
    assert "several runs fit" in verdict.problem
    assert "engine" in verdict.problem


def test_a_claim_holds_in_every_cell_or_not(live):
    each = criterion(each=["backend"])
    runs = with_jct(live, uniform=200.0, fifo=100.0)
    other = []
    for run in with_jct(live, uniform=100.0, fifo=100.0):
        choices = {**run.stored.config["choices"], "backend": "stop_free"}
        manifest = {**run.stored.manifest, "choices": choices}
        other.append(replace(run, stored=replace(run.stored, manifest=manifest)))
    verdict = judge_one("x/1", each, [*runs, *other], 1)
    assert [cell.direction for cell in verdict.cells] == [Direction.FAILS, Direction.HOLDS]
    assert verdict.direction is Direction.FAILS


def test_more_claims_make_intervals_wider():
    values = [1.0, 1.1, 0.9, 1.05]
    widths = []
    for confidence in (0.95, 0.99, 0.999):
        low, mean, high = interval(values, confidence, in_logarithms=False, is_exact=False)
        assert mean == pytest.approx(1.0125)
        widths.append(high - low)
    assert widths == sorted(widths)
    low, _, high = interval(values, 0.95, in_logarithms=False, is_exact=False)
    # By hand: s = 0.085391, t(3, 0.975) = 3.18245.
    assert (high - low) / 2 == pytest.approx(3.182446 * 0.0853913 / math.sqrt(4), rel=1e-5)


def with_manifest(run, **changes):
    manifest = {**run.stored.manifest, **changes}
    return replace(run, stored=replace(run.stored, manifest=manifest))


def test_records_say_whether_the_criterion_was_there_before_them(live):
    mine = criterion()
    held = {"x/1": mine.digest}
    runs = [with_manifest(run, criteria=held) for run in with_jct(live, uniform=200.0, fifo=100.0)]
    assert judge_one("x/1", mine, runs, 1).fixed.before
    assert not judge_one("x/1", criterion(holds_if={"above": 1.4}), runs, 1).fixed.before
    assert not judge_one("x/1", mine, live, 1).fixed.before
    assert not judge_one("x/1", mine, [], 1).fixed.before


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"criteria": {"x/1": "0" * 64}},
            "Changed since: the manifests of 2 of 10 runs, made at commit abc, have another form"
            " of it.",
        ),
        (
            {"criteria": {"y/1": "0" * 64}, "sweep": "main"},
            "Not in the manifests of 2 of 10 runs: made at commit abc for the study main, and a"
            " manifest has the criteria of its own study alone.",
        ),
        (
            {"criteria": {}, "sweep": None},
            "Not in the manifests of 2 of 10 runs: made at commit abc for no study, and a"
            " manifest has the criteria of its own study alone.",
        ),
        (
            {"criteria": {}},
            "Not in the manifests of 2 of 10 runs: made at commit abc, when the ledger did not"
            " have the criterion.",
        ),
        (
            {},
            "Not in the manifests of 2 of 10 runs: made at commit abc, when manifests had no"
            " criteria yet.",
        ),
    ],
)
def test_a_criterion_that_was_not_there_says_why(live, changes, text):
    mine = criterion()
    runs = with_jct(live, uniform=200.0, fifo=100.0)
    runs = [
        with_manifest(run, **changes, git_commit="abc")
        if run.trial[1] == 0
        else with_manifest(run, criteria={"x/1": mine.digest})
        for run in runs
    ]
    verdict = judge_one("x/1", mine, runs, 1)
    assert wording.fixed(verdict.fixed, mine.study) == text


def test_the_documentation_has_every_wording():
    page = " ".join(CLAIMS_PAGE.read_text(encoding="utf-8").split())
    commits = ["…", "…"]
    assert wording.fixed(Fixed(3, 3, {}, {}), "own") in page
    changed = wording.fixed(Fixed(3, 1, {Made("own", True): commits}, {}), "own")
    assert changed.replace("2 of 3", "N of M") in page
    head = "Not in the manifests of N of M runs: made at commit …"
    assert f"*{head}*" in page
    for made in (Made("own", False), Made("own", True), Made("NAME", True)):
        absent = wording.fixed(Fixed(3, 1, {}, {made: commits}), "own")
        why = absent.replace("2 of 3", "N of M").removeprefix(head)
        assert f"*{why.strip(' ,.')}*" in page


def test_the_ledger_has_every_entry():
    papers = ledger.load()
    assert [len(paper.claims) for paper in papers] == [41, 35, 35, 33, 24]
    for paper in papers:
        for claim in paper.claims:
            assert claim.shows, claim.id
            assert claim.relation, claim.id


@pytest.mark.long
def test_runs_keep_the_digests_of_what_judges_them():
    in_ledger: dict[str, dict[str, str]] = {}
    for paper in ledger.load():
        for claim in paper.claims:
            for named, each in claim.names().items():
                in_ledger.setdefault(each.study, {})[named] = each.digest
    for study in options("study"):
        assert criteria_of(study) == in_ledger.get(study, {})
    assert in_ledger
    assert criteria_of(None) == {}
    assert name("edl-fig1", 2) == "edl-fig1/2"
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})


def test_mistakes_of_the_ledger_are_told_with_their_place(tmp_path: Path):
    for paper in PAPERS:
        document = yaml.safe_load((LEDGER / f"{paper}.yaml").read_text(encoding="utf-8"))
        if paper == "edl":
            first, second, third, *_ = document["claims"]
            first["critera"] = []
            second["criteria"][0] |= {"study": "edl_rescal", "holds_if": {"over": 2}}
            third["checked_by"] = ["tests/nowhere.py::test_nothing"]
            second["given"] = "an input"
            second["ablations"] = [{**second["criteria"][0], "study": "edl_tabel3"}]
        (tmp_path / f"{paper}.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(UserError) as caught:
        ledger.load(tmp_path)
    text = str(caught.value)
    assert "edl.yaml: edl-headline-jct.critera: is no key; did you mean 'criteria'?" in text
    assert "edl.yaml: edl-headline-overhead/1: there is no study edl_rescal; did you mean" in text
    assert "edl-headline-overhead/ablation/1: there is no study edl_tabel3; did you mean" in text
    assert "edl-headline-overhead.analysis: is missing; state what the ablations show" in text
    assert "edl-headline-overhead/1.holds_if: is no bound; give one of above, below, within" in text
    assert "edl.yaml: edl-fig1: there is no test tests/nowhere.py::test_nothing" in text
    assert "edl-headline-overhead.given: needs checked_by; name the tests" in text


def test_ablations_are_judged_and_decide_nothing(live):
    claim = Claim(
        id="edl-x", paper="edl", where="", kind="", shows="", metric="", relation="", setup={},
        stated=[], needs={}, criteria=(criterion(),), analysis="why",
        ablations=(criterion(holds_if={"above": 0.5}), criterion(study="none_yet")),
    )  # fmt: skip
    paper = ledger.Paper("edl", "", "", "", (claim,))
    (verdict,) = judge([paper], {"demo": with_jct(live, uniform=100.0, fifo=100.0)})
    assert verdict.direction is Direction.FAILS
    assert [each.direction for each in verdict.ablations] == [Direction.HOLDS, None]
    without = replace(verdict, ablations=())
    assert (verdict.stored(), verdict.status) == (without.stored(), without.status)
    texts = wording.claim(verdict, {})["ablations"]
    assert [len(each["cells"]) for each in texts] == [1, 0]
    assert "There are no records of the study none_yet." in texts[1]["problem"]


@pytest.fixture(scope="module")
def on_record():
    """The committed runs of the studies that ablations are of."""
    names = {each.study for paper in ledger.load() for c in paper.claims for each in c.ablations}
    found = select(sorted(path for name in names for path in REFERENCE.glob(f"*/{name}*")))
    return by_study(found)


def test_what_fails_has_an_analysis_with_ablations_on_record(on_record):
    accepted = json.loads((REFERENCE / kept.FILE).read_text(encoding="utf-8"))
    fails = {each for each, verdict in accepted.items() if verdict["direction"] == "fails"}
    assert fails
    for claim in (claim for paper in ledger.load() for claim in paper.claims):
        if claim.id in fails:
            assert claim.analysis, claim.id
            assert claim.ablations, claim.id
            for each in claim.ablations:
                assert judge_one(claim.id, each, on_record[each.study], 1).cells, claim.id


@pytest.mark.long
def test_the_report_fails_until_changed_verdicts_are_accepted(tmp_path, capsys):
    root = tmp_path / "runs"
    write_run(root)
    words = ["--results", str(root), "--out", str(tmp_path / "site"), "--formats", "png"]
    assert main([*words, "--accept"]) == 0
    assert main(words) == 0
    accepted = (root / kept.FILE).read_text()
    (root / kept.FILE).write_text(accepted.replace('"records awaited"', '"checked by tests"', 1))
    capsys.readouterr()
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "checked by tests → records awaited (neither its criteria nor its records" in said
    assert "accept them with --accept" in said
    other = tmp_path / "other"
    write_run(other, scheduler="edf")
    assert main([*words[:2], str(other), *words[2:]]) == 0  # records of several folders: no judge


def test_a_verdict_that_changes_alone_is_noticed(live, tmp_path: Path):
    claim = Claim(
        id="edl-x", paper="edl", where="", kind="", shows="", metric="", relation="", setup={},
        stated=[], needs={}, criteria=(criterion(),),
    )  # fmt: skip
    paper = ledger.Paper("edl", "", "", "", (claim,))

    def verdicts(runs: list[ReportRun], of: ledger.Paper = paper) -> list[ClaimVerdict]:
        return judge([of], {"demo": runs})

    holds = verdicts(with_jct(live, uniform=200.0, fifo=100.0))
    path = tmp_path / kept.FILE
    kept.write(path, holds)
    assert [verdict.status for verdict in holds] == [Status.TESTED]
    assert list(kept.changes(path, holds)) == []
    (line,) = kept.changes(path, verdicts(with_jct(live, uniform=100.0, fifo=100.0)))
    assert line == "edl-x: holds → fails (other records)", "their tables are the same"
    accepted = path.read_text(encoding="utf-8")
    path.write_text(accepted.replace('"holds"', '"fails"'), encoding="utf-8")
    (line,) = kept.changes(path, holds)
    assert line == "edl-x: fails → holds (neither its criteria nor its records changed)"
    path.write_text(accepted, encoding="utf-8")
    stricter = replace(claim, criteria=(criterion(holds_if={"above": 5.0}),))
    runs = with_jct(live, uniform=200.0, fifo=100.0)
    (line,) = kept.changes(path, verdicts(runs, replace(paper, claims=(stricter,))))
    assert line == "edl-x: holds → fails (another criterion)"
    (line,) = kept.changes(path, verdicts(runs[1:]))
    assert line.endswith("(other records)")

"""ARTIFACT.md: its tables are what the data give."""

import json
import re
import shutil
from collections import Counter

import pytest

from harness.errors import UserError
from harness.results.store import run_paths
from reports.artifact import __main__ as artifact
from reports.artifact.answers import README, TRUST, WHICH, WORTH
from reports.artifact.picture import PATH as PICTURE
from reports.claims.ledger import load
from tests.artifact.shown import ROOT

REFERENCE = ROOT / "results" / "reference"
ANSWERS = (WHICH, WORTH, TRUST)


@pytest.fixture(scope="module")
def page():
    return (ROOT / "ARTIFACT.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows(page):
    """Every study's rows as cells: one in each paper's table that it is in."""
    found = re.findall(r"^\| `study=(\w+)` \| (.*) \|$", page, flags=re.MULTILINE)
    return [(study, row.split(" | ")) for study, row in found]


@pytest.fixture(scope="module")
def cells(rows):
    """The cells of a row of every study, by study."""
    return dict(rows)


def test_pages_and_picture_are_what_the_command_writes(monkeypatch, capsys):
    """The tables, the README's findings and the numbers of the answer pages."""
    monkeypatch.chdir(ROOT)
    assert artifact.main(["--check"]) == 0, capsys.readouterr().err


def test_every_study_with_points_and_every_paper_is_there(page, cells):
    paths = (ROOT / "configs" / "study").rglob("*.yaml")
    names = {path.stem for path in paths if "\nstudies:" not in path.read_text()}
    assert set(cells) == names
    assert all(f"### {paper.short}\n" in page for paper in load())


def test_the_claims_of_a_study_are_those_of_the_ledger(rows):
    claims = [claim for paper in load() for claim in paper.claims]
    for study in {study for study, _ in rows}:
        own = [claim.id for claim in claims if study in {each.study for each in claim.criteria}]
        shown = [cells[0] for each, cells in rows if each == study]
        assert not own or sum(map(int, shown)) == len(own), study


def test_time_and_memory_are_those_on_record(cells):
    runs = [path for path in run_paths(REFERENCE) if path.parent.name == "edl_faults"]
    facts = [json.loads((path / "facts.json").read_text()) for path in runs]
    wall_s = sum(each["replay_wall_s"] for each in facts)
    num_points, num_runs, minutes, memory, disk, hardware = cells["edl_faults"]
    assert num_runs == str(len(facts)) == num_points
    assert minutes == f"{wall_s / 60:.0f} min"
    assert float(memory.split()[0]) > max(each["peak_memory_bytes"] for each in facts) / 1e9
    files = [path for run in runs for path in run.iterdir()]
    assert float(disk.split()[0]) == pytest.approx(
        sum(path.stat().st_size for path in files) / 1e6, rel=0.01
    )
    assert hardware == "2 CPU cores"


def test_on_record_are_the_runs_in_a_studys_folders(rows):
    """Whatever study a shared point was made for: it is copied to the folder of each."""
    shown = {study: cells[-5] for study, cells in rows}
    points = {(path.parent.name, path.name) for path in run_paths(REFERENCE)}
    found = Counter(study for study, _ in points)  # of those on several machines the first counts
    assert shown == {study: str(found[study] or "none") for study in shown}
    assert len(set(shown.values())) > 10
    num_points = {study: int(cells[-6].split()[0]) for study, cells in rows}
    assert not {study for study in shown if found[study] > num_points[study]}


def test_records_that_are_about_the_machine_are_not_said_to_be_equal(cells):
    """Hu's figure 16 is about the wall clock of simulated decisions."""
    (_, _, tolerance, *_, hardware) = cells["hu_fig16"]
    assert tolerance.startswith("about the machine: the interval over trials")
    assert hardware == "any CPU, kept quiet"
    (_, _, tolerance, *_, hardware) = cells["hu_fig9"]
    assert (tolerance, hardware) == ("records equal byte for byte", "any CPU")


def test_no_tested_claim_rests_on_a_study_that_is_not_on_record(cells):
    accepted = json.loads((REFERENCE / "verdicts.json").read_text(encoding="utf-8"))
    claims = [claim for paper in load() for claim in paper.claims]
    tested = [claim for claim in claims if accepted[claim.id]["status"] == "tested"]
    deciding = {each.study for claim in tested for each in claim.criteria}
    assert len(deciding) > 30
    assert not {study for study in deciding if cells[study][-5] == "none"}


@pytest.mark.long
def test_another_section_is_noticed_and_the_rest_of_the_page_stays(tmp_path, monkeypatch, capsys):
    (tmp_path / "results").symlink_to(ROOT / "results")
    for path in (README, *ANSWERS, PICTURE):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "ARTIFACT.md"
    path.write_text(f"before\n{artifact.BEGIN}\nold\n{artifact.END}\nafter\n")
    assert artifact.main(["--check"]) == 1
    assert "python -m reports.artifact" in capsys.readouterr().err
    assert "old" in path.read_text()
    assert artifact.main([]) == 0
    assert path.read_text().startswith("before\n<!--")
    assert path.read_text().endswith("-->\nafter\n")
    assert "\nold\n" not in path.read_text()
    assert artifact.main(["--check"]) == 0


def test_a_page_without_marks_is_refused():
    with pytest.raises(UserError, match="lacks the marks"):
        artifact.rewritten("no marks", "text")

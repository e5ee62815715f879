"""The report on a small store: every file, every axis with its unit, nothing silently missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import pytest
from sample_runs import write_run

from harness.results.store import REFERENCE, RESULT_DIRS, RUNS
from reports.__main__ import main
from reports.drawing import style
from reports.drawing.figure import Drawing, Table
from reports.figures import FIGURES, GENERAL
from reports.runs.selection import select
from reports.site import about

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two schedulers in both engines; one has five live trials, the other two."""
    root = tmp_path_factory.mktemp("runs")
    for scheduler, trials in (("fifo", 5), ("uniform", 2)):
        write_run(root, scheduler=scheduler)
        for repetition in range(trials):
            write_run(root, scheduler=scheduler, live=True, repetition=repetition)
    return root


@pytest.fixture(scope="module")
def drawings(store: Path) -> dict[str, list[Drawing]]:
    runs = select([store])
    with mpl.rc_context(style.RC):
        return {name: each.draw(runs) for name, each in FIGURES.items()}


class Page(HTMLParser):
    """Collects identifiers and links, and checks that tags are closed in order."""

    VOID = frozenset({"meta", "img", "br", "link", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[key] for key in ("href", "src") if key in values]
        if tag == "img":
            assert values["alt"], "a picture without a description"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read_page(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    assert page.open == []
    return page


def test_report_writes_page_figures_and_tables(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    assert main(["--results", str(store), "--out", str(site)]) == 0
    assert str(site / "index.html") in capsys.readouterr().out
    pages = {path: read_page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), path
        for link in page.links:
            assert not re.match("https?:|//", link), "the page needs nothing from elsewhere"
            target, _, anchor = link.partition("#")
            if not link.startswith("data:"):
                where = (path.parent / target).resolve() if target else path
                assert where.is_file(), f"{path}: {link}"
                assert not anchor or anchor in pages[where].ids, f"{path}: {link}"
    out = site / "studies" / "demo"
    text = (out / "index.html").read_text(encoding="utf-8")
    run_ids = {run.run_id for run in select([store])}
    assert len(run_ids) == 9
    for run_id in run_ids:
        assert f"<summary>{run_id}</summary>" in text
    assert "python -m harness --from" in text
    assert "profile not measured here" in text.lower()
    assert "Nothing to show" not in text
    drawn = {path.stem for path in (out / "figures").glob("*.svg")}
    assert drawn == {path.stem for path in (out / "figures").glob("*.png")}
    stems = {re.sub(r"-\d+$", "", stem).replace("-", "_") for stem in drawn}
    assert stems == set(GENERAL) - {"comparison"}
    entries = json.loads((out / "figures.json").read_text())
    assert {Path(entry["file"]).stem for entry in entries} == drawn
    for entry in entries:
        assert (out / entry["file"]).is_file()
        assert set(entry["run_ids"]) <= run_ids
        assert entry["run_ids"]
    tables = (out / "tables.md").read_text(encoding="utf-8")
    assert "| fifo (exact) / stop_resume | live | 5 |" in tables


def test_a_study_has_a_page_with_its_own_runs(tmp_path: Path) -> None:
    root, out = tmp_path / "runs", tmp_path / "site"
    general = write_run(root, scheduler="fifo", sweep="sim_catalogue").run_id
    special = write_run(root, scheduler="edf", sweep="edl_straggler").run_id
    words = ["--results", str(root), "--out", str(out), "--formats", "png"]
    assert main(words) == 0
    for study, run, drawn in (
        ("sim_catalogue", general, {general}),
        ("edl_straggler", special, set()),
    ):
        folder = out / "studies" / study
        text = (folder / "index.html").read_text(encoding="utf-8")
        assert {run_id for run_id in (general, special) if run_id in text} == {run}
        entries = json.loads((folder / "figures.json").read_text())
        assert {each for entry in entries for each in entry["run_ids"]} == drawn
    assert main([*words, "--figures", "jct_distribution"]) == 0
    entries = json.loads((out / "figures.json").read_text())
    assert {run for entry in entries for run in entry["run_ids"]} == {general, special}


def test_every_axis_has_a_label_with_its_unit(drawings: dict[str, list[Drawing]]) -> None:
    labelled = re.compile(r"\S.*\(.+\)$")
    checked = 0
    for drawing in (drawing for group in drawings.values() for drawing in group):
        if drawing.figure is None:
            continue
        for axis in drawing.figure.axes:
            twins_x = [axis, *axis.get_shared_x_axes().get_siblings(axis)]
            twins_y = [axis, *axis.get_shared_y_axes().get_siblings(axis)]
            assert any(labelled.match(twin.get_xlabel()) for twin in twins_x), drawing.name
            assert any(labelled.match(twin.get_ylabel()) for twin in twins_y), drawing.name
            checked += 1
    assert checked >= 9


def test_every_figure_says_how_many_trials_it_shows(drawings: dict[str, list[Drawing]]) -> None:
    for drawing in (drawing for group in drawings.values() for drawing in group):
        if drawing.figure is not None:
            note = drawing.figure.get_supxlabel()
            assert re.search(r"\d trials? each", note), drawing.name


@pytest.mark.long
def test_the_same_records_give_the_same_figures(store: Path, tmp_path: Path) -> None:
    words = ["--results", str(store), "--figures", "jct_distribution"]
    for name in ("a", "b"):
        assert main([*words, "--out", str(tmp_path / name), "--formats", "svg", "pdf"]) == 0
    first = sorted((tmp_path / "a" / "figures").iterdir())
    second = sorted((tmp_path / "b" / "figures").iterdir())
    assert [path.name for path in first] == [path.name for path in second]
    assert {path.suffix for path in first} == {".svg", ".pdf"}
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_new_report_leaves_no_figure_of_an_earlier_one(store: Path, tmp_path: Path) -> None:
    words = ["--results", str(store), "--out", str(tmp_path), "--formats", "png"]
    (tmp_path / "figures").mkdir()
    mine = tmp_path / "figures" / "mine.png"
    mine.write_bytes(b"not made by the report")
    assert main([*words, "--figures", "slots_in_use"]) == 0
    assert main([*words, "--figures", "jct_distribution"]) == 0
    left = {path.name for path in (tmp_path / "figures").iterdir()}
    assert left == {"jct-distribution-1.png", "mine.png"}


def test_a_figure_without_data_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", scheduler="fifo")
    assert main(["--results", str(tmp_path / "runs"), "--out", str(tmp_path / "site")]) == 0
    page = tmp_path / "site" / "studies" / "demo" / "index.html"
    text = page.read_text(encoding="utf-8")
    assert "Nothing to show: No system of the selection ran in both engines" in text
    read_page(page)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--results", "nowhere"], "no finished run in nowhere; make one: python -m harness"),
        (["study=ghost", "--results", "STORE"], "no finished run of study ghost"),
        (["studyghost", "--results", "STORE"], "'studyghost' is no argument; write study=NAME"),
        (["--accept", "--results", "STORE", "STORE"], "--accept is for all verdicts of one folder"),
        (["--accept", "study=demo", "--results", "STORE"], "--accept is for all verdicts of one"),
        (["--results", "STORE", "--figures", "pie"], "--figures: there is no figure 'pie'; known:"),
    ],
)
def test_mistakes_are_explained(
    store: Path, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(store) if word == "STORE" else word for word in words]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("words", [["study=demo"], []], ids=["page", "site"])
@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ("[comparison, timelin]", "there is no figure 'timelin'; did you mean 'timeline'? known:"),
        ("[gantt, timelin]", "there is no figure 'gantt'; known:"),
        ("timeline", "is 'timeline'; give a list: [timeline]"),
    ],
)
def test_a_studys_file_that_names_no_figure_is_explained(
    store: Path,
    tmp_path: Path,
    words: list[str],
    figures: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "demo.yaml").write_text(f"description: d\nfigures: {figures}\n", encoding="utf-8")
    monkeypatch.setattr(about, "option_files", lambda _: {"demo": tmp_path / "demo.yaml"})
    assert main([*words, "--results", str(store), "--out", str(tmp_path / "site")]) == 2
    error = capsys.readouterr().err
    assert f"demo.yaml: figures: {text}" in error
    assert error.count("there is no figure") == figures.count("timelin]") + ("gantt" in figures)
    assert not (tmp_path / "site").exists()


def test_tables_escape_what_they_are_given() -> None:
    table = Table(["name", "a|b"], [["<b>x</b>", "1"]])
    assert "&lt;b&gt;x&lt;/b&gt;" in table.to_html()
    assert table.to_markdown() == "| name | a\\|b |\n| --- | ---: |\n| <b>x</b> | 1 |"


def test_words_stand_to_the_left_and_numbers_to_the_right() -> None:
    table = Table(["system", "engine", "JCT"], [["a", "live", "1.5"], ["b", "", ""]])
    page = table.to_html()
    assert page.count('class="text"') == 4  # the first column names the row, and is words too
    assert '<th class="text">engine</th><th>JCT</th>' in page
    assert '<td class="text">live</td><td>1.5</td>' in page


@pytest.mark.long
def test_reports_load_no_training_library_and_no_tracking() -> None:
    code = (
        "import sys, reports.__main__;"
        "unwanted = {'torch', 'mlflow', 'transformers', 'systems', 'workloads'};"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.long
def test_a_run_made_here_comes_before_the_committed_one_and_others_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    here = write_run(tmp_path / RUNS, git_commit="a" * 40)
    write_run(tmp_path / REFERENCE / "some-machine" / "main", git_commit="b" * 40)
    write_run(tmp_path / REFERENCE / "some-machine" / "main", scheduler="uniform")
    runs = {run.run_id: run for run in select([path for path in RESULT_DIRS if path.is_dir()])}
    assert len(runs) == 2
    assert runs[here.run_id].stored.manifest["git_commit"] == "a" * 40
    assert main(["--figures", "jct_distribution"]) == 0
    assert "1 of 2 runs come from" in capsys.readouterr().out
    assert main(["--figures", "jct_distribution", "--results", str(RUNS)]) == 0
    assert "committed" not in capsys.readouterr().out

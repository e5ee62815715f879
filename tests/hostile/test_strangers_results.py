"""A stranger's folder of results: it runs no code, leads nowhere, and its texts are texts."""

import base64
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.compare import main as compare_main
from harness.machine.plain_output import plain
from harness.results.store import StoreError, iter_runs, run_paths
from harness.results.tables import TableError, read_table
from harness.tracking.__main__ import main as tracking_main
from harness.tracking.mirror import TrackingError, attach_report
from harness.tracking.rows import note
from harness.validate import check_run
from harness.validate import main as validate_main
from reports.__main__ import main as report_main
from tests.results.sample_runs import write_run

ROOT = Path(__file__).resolve().parents[2]
TITLE = "\x1b]0;owned\x07\x1b[2J"
"""For a terminal: sets its title, and clears it."""
MARKUP = "<script>alert(1)</script>"


def with_config(run, **changes):
    path = run.path / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


def with_manifest(run, **changes):
    path = run.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Two runs on two contents of a trace that is read by a class of the stranger's; and a file
    that is there once the class's module has been imported."""
    mark = tmp_path / "has-run"
    (tmp_path / "stranger_module.py").write_text(
        f"open({str(mark)!r}, 'w').close()\nclass Reader:\n    files = ()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    part = {"_target_": "stranger_module.Reader", "path": "/etc/hostname"}
    named = {"name": "lab", "source": "x", "licence": "x", "reader": part, "transforms": [part]}
    for number in range(2):
        trace = {"name": "lab", "digest": str(number) * 64, "files_digest": f"f{number}"}
        run = write_run(tmp_path / "results", repetition=number, trace=trace)
        with_config(run, trace=named, scheduler=part, backend=part, engine=part, profile=part)
    yield tmp_path / "results", mark
    sys.modules.pop("stranger_module", None)


def test_no_command_imports_what_a_folder_names(stranger, tmp_path, capsys):
    results, mark = stranger
    store = ["--uri", f"sqlite:///{tmp_path}/m.db", "--artifacts", str(tmp_path / "artifacts")]
    assert validate_main([str(results)]) == 0
    assert "edited since" in capsys.readouterr().out, "the contents of the trace were compared"
    assert compare_main([str(results), str(results)]) == 0
    out = ["--out", str(tmp_path / "site"), "--figures", "comparison", "--formats", "svg"]
    assert report_main(["--results", str(results), *out]) == 0
    assert tracking_main(["fill", "--results", str(results), *store]) == 0
    assert not mark.exists()
    import stranger_module  # noqa: F401

    assert mark.exists(), "it could have been imported"


def test_a_link_below_a_folder_is_told_and_not_followed(tmp_path):
    run = write_run(tmp_path / "elsewhere")
    results = tmp_path / "results"
    results.mkdir()
    (results / "round").symlink_to(results)
    with pytest.raises(StoreError, match="round: is a link"):
        list(run_paths(results))
    (results / "round").unlink()
    (results / run.run_id).symlink_to(run.path)
    with pytest.raises(StoreError, match="is a link; name the folder that it leads to"):
        list(iter_runs(results))
    assert [each.run_id for each in iter_runs(run.path)] == [run.run_id]


@pytest.mark.parametrize("name", ["manifest.json", "config.yaml", "metrics.json", "jobs.csv.gz"])
def test_a_file_of_a_run_is_no_link(tmp_path, name):
    run = write_run(tmp_path)
    path = run.path / name
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert any("it is a link" in problem for problem in check_run(run.path))


def test_a_table_that_unpacks_to_very_much_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.files.bounded_file._FREE_BYTES", 1 << 20)
    path = tmp_path / "latencies.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"latency_us\n")
        file.write(b"1\n" * (1 << 20))
    assert path.stat().st_size < 4000
    with pytest.raises(TableError, match="holds more than 1,048,576 bytes"):
        read_table(path, "latencies")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("latencies", "latency_us\n99999999999999999999\n"),
        ("decisions", f"time_s,num_news,num_changes\n1.0,{'9' * 5000},1\n"),
    ],
)
def test_whole_numbers_of_a_table_have_64_bits(tmp_path, name, line):
    path = tmp_path / f"{name}.csv.gz"
    path.write_bytes(gzip.compress(line.encode()))
    with pytest.raises(TableError, match="damaged"):
        read_table(path, name)


def test_a_cell_of_phases_is_a_mapping_to_numbers(tmp_path):
    run = write_run(tmp_path)
    path = run.path / "changes.csv.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    for cell in ("[]", '"{""save"": ""x""}"', "[" * 5000):
        changed = re.sub(r'"\{.*\}"', cell, text, count=1)
        path.write_bytes(gzip.compress(changed.encode()))
        with pytest.raises(TableError, match="damaged"):
            read_table(path, "changes")


def test_records_beyond_all_numbers_are_a_problem_and_no_traceback(tmp_path):
    run = write_run(tmp_path)
    path = run.path / "jobs.csv.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(text.replace(",finished,", ",failed,").encode()))
    assert any("the records" in problem or "metrics" in problem for problem in check_run(run.path))


def test_the_terminal_shows_control_characters_as_letters(tmp_path):
    run = write_run(tmp_path / "a")
    with_config(run, choices={"scheduler": TITLE, "backend": "[bold red]x[/]"})
    with_manifest(run, run_id="other", choices={"scheduler": TITLE}, git_commit=TITLE)
    other = write_run(tmp_path / "b")
    for words in (["validate", run.path], ["compare", tmp_path / "a", tmp_path / "b", "--all"]):
        done = subprocess.run(
            [sys.executable, "-m", f"harness.{words[0]}", *map(str, words[1:])],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 2), done.stderr
        assert "\x1b" not in done.stdout + done.stderr
    assert other.run_id


def test_a_folder_whose_name_is_an_order_is_spelt_out(tmp_path):
    folder = tmp_path / f"results{TITLE}"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "harness.validate", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert r"\x1b]0;owned\x07" in done.stderr


def test_names_are_spelt_out_but_keep_their_letters():
    assert plain("Grün 漢字 \t\n") == "Grün 漢字 \t\n"
    assert plain("a\u202eb\rc\x9b") == r"a\u202eb\rc\x9b"


def test_tables_show_brackets_and_no_styles(tmp_path, capsys):
    from rich.table import Table

    from harness.machine.terminal import console

    table = Table("name")
    table.add_row(f"[link=https://example.org]x[/link] :warning: {TITLE}")
    console().print(table)
    shown = capsys.readouterr().out
    assert "[link=https://example.org]x[/link] :warning:" in shown
    assert "\x1b" not in shown


@pytest.mark.long
def test_the_report_shows_markup_as_text(tmp_path):
    for number in range(2):
        run = write_run(tmp_path / "results", repetition=number, sweep="demo")
        with_manifest(
            run, choices={"scheduler": MARKUP, "backend": f'"onload="{MARKUP}', "trace": "$x_1$"},
            sweep=f"demo{MARKUP.replace('/', '')}", git_commit=MARKUP, packages={MARKUP: MARKUP},
        )  # fmt: skip
    out = tmp_path / "site"
    assert report_main(["--results", str(tmp_path / "results"), "--out", str(out)]) in (0, 1)
    pages = [*out.rglob("*.html")]
    assert len(pages) > 5
    for page in pages:
        text = page.read_text(encoding="utf-8")
        own = text.replace('<script>\nconst search = document.getElementById("search")', "")
        assert "<script" not in own
        assert "onload=" not in re.sub(r"onload=&|&#34;onload=|&quot;onload=", "", own)
        for picture in re.findall(r"data:image/svg\+xml;base64,([^\"]+)", text):
            drawn = base64.b64decode(picture).decode()
            assert "<script" not in drawn
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results", "site"]


def test_an_earlier_report_may_remove_its_own_files_only(tmp_path):
    write_run(tmp_path / "results")
    out = tmp_path / "site"
    out.mkdir()
    for name in ("kept.svg", "kept.txt", "site/own.txt"):
        (tmp_path / name).write_text("kept")
    (out / "old.svg").write_text("old")
    names = ["../kept.svg", str(tmp_path / "kept.txt"), "own.txt", "old.svg"]
    (out / "figures.json").write_text(json.dumps([{"files": names}]))
    words = ["--figures", "comparison", "--formats", "svg", "--out", str(out)]
    assert report_main(["--results", str(tmp_path / "results"), *words]) == 0
    assert (tmp_path / "kept.svg").exists()
    assert (tmp_path / "kept.txt").exists()
    assert (out / "own.txt").exists()
    assert not (out / "old.svg").exists()


def test_a_list_of_figures_that_is_none_is_refused(tmp_path, capsys):
    write_run(tmp_path / "results")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "figures.json").write_text('["a"]')
    words = ["--figures", "comparison", "--out", str(tmp_path / "site")]
    assert report_main(["--results", str(tmp_path / "results"), *words]) == 2
    assert "is no list of a report" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["../secret.svg", "/etc/hostname"])
def test_only_files_of_the_report_are_put_into_mlflow(tmp_path, file):
    (tmp_path / "secret.svg").write_text("secret")
    (tmp_path / "site").mkdir()
    figures = tmp_path / "site" / "figures.json"
    figures.write_text(json.dumps([{"file": file, "run_ids": ["a"]}]))
    config = {"uri": f"sqlite:///{tmp_path}/m.db", "artifacts": str(tmp_path / "artifacts")}
    with pytest.raises(TrackingError, match="elsewhere"):
        attach_report(figures, config)


def test_only_records_of_a_run_are_put_into_mlflow(tmp_path):
    run = write_run(tmp_path)
    before = run.files()
    (run.path / "page.html").write_text(MARKUP)
    (run.path / "faults.csv.gz").symlink_to("/etc/hostname")
    assert run.files() == before


def test_a_note_in_mlflow_is_text(tmp_path):
    run = write_run(tmp_path)
    with_manifest(run, choices={"scheduler": f"[x](javascript:alert) {MARKUP} `a`"})
    (read,) = iter_runs(tmp_path)
    text = note(read)["mlflow.note.content"]
    assert r"\[x\](javascript:alert) &lt;script>" in text
    assert r"\`a\`" in text

"""Figures and tables as files: every format, linked, readable in print, the same bytes again."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.text import Text
from test_report import read_page

from reports.claims import ledger
from reports.drawing import style, table_files
from reports.drawing.figure import Table
from reports.figures import FIGURES
from reports.runs.selection import select

ROOT = Path(__file__).parents[2]
PRINT_WIDTH_IN = 7.0
"""Text of a page with two columns, as ACM, IEEE and USENIX print it."""
LEAST_PT = 6.0

TABLE = Table(
    ["system_a", "mean, s", "share, %", "claims"],
    [
        ["fifo & co", "1,234.5 ±67.8", "-1.5", "at least 10× less"],
        ["edf", "12.0", "", "from 1 → 5 % of 3 | 4"],
    ],
)


def test_every_figure_and_table_has_its_files_and_links(full_site: Path) -> None:
    page = full_site / "studies" / "demo" / "index.html"
    links = set(read_page(page).links)
    figures = {path.stem for path in (page.parent / "figures").iterdir()}
    tables = {path.stem for path in (page.parent / "tables").iterdir()}
    assert figures
    assert "comparison-1" in tables
    assert {f"figures/{name}.{form}" for name in figures for form in ("svg", "png", "pdf")} <= links
    assert {f"tables/{name}.{form}" for name in tables for form in table_files.FORMATS} <= links


def test_every_paper_has_its_claims_as_files(full_site: Path) -> None:
    for paper in ledger.load():
        links = read_page(full_site / f"{paper.id}.html").links
        for form in table_files.FORMATS:
            assert f"tables/claims-{paper.id}.{form}" in links
        text = (full_site / "tables" / f"claims-{paper.id}.csv").read_text(encoding="utf-8")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert {row["entry"] for row in rows} == {claim.id for claim in paper.claims}
        assert all(row["verdict"] for row in rows)


def test_csv_has_numbers_that_programs_read() -> None:
    rows = list(csv.DictReader(io.StringIO(table_files.csv(TABLE))))
    assert [row["mean, s"] for row in rows] == ["1234.5", "12.0"]
    assert [row["mean, s, ±"] for row in rows] == ["67.8", ""]
    assert [row["share, %"] for row in rows] == ["-1.5", ""]
    assert rows[0]["claims"] == "at least 10× less"


def test_latex_is_a_booktabs_table_of_plain_letters() -> None:
    text = table_files.latex(TABLE)
    for part in (r"\toprule", r"\midrule", r"\bottomrule", r"system\_a", r"fifo \& co", r"5 \%"):
        assert part in text
    assert r"1,234.5 $\pm$67.8" in text
    assert r"\begin{tabular}{lrrl}" in text
    assert text.isascii()


def test_no_letter_of_the_site_is_unknown_to_latex(full_site: Path) -> None:
    for path in [*(full_site / "tables").glob("*.tex"), *full_site.glob("studies/*/tables/*.tex")]:
        assert path.read_text(encoding="utf-8").isascii(), path


def test_markdown_cells_keep_their_columns() -> None:
    lines = TABLE.to_markdown().splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}


def test_text_is_readable_where_a_figure_is_printed(full_store: Path) -> None:
    runs, checked = select([full_store]), 0
    with mpl.rc_context(style.RC):
        for draw in (each.draw for each in FIGURES.values()):
            for drawing in draw(runs):
                if drawing.figure is None:
                    continue
                scale = min(1.0, PRINT_WIDTH_IN / drawing.figure.get_size_inches()[0])
                for text in drawing.figure.findobj(Text):
                    if text.get_text() and text.get_visible():
                        assert text.get_fontsize() * scale >= LEAST_PT, (drawing.name, text)
                        checked += 1
    assert checked > 100


@pytest.mark.long
def test_files_do_not_depend_on_when_or_by_which_process_they_are_made(
    full_store: Path, tmp_path: Path
) -> None:
    made = []
    for name, seed, now in (("a", "1", "0"), ("b", "2", "1000000000")):
        subprocess.run(
            [sys.executable, "-m", "reports", "--results", str(full_store), "--out",
             str(tmp_path / name), "--figures", "jct_distribution", "--formats", "pdf", "png"],
            check=True,
            cwd=ROOT,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": now},
        )  # fmt: skip
        folder = tmp_path / name
        files = [*folder.glob("figures/*"), *folder.glob("tables/*")]
        made.append({path.name: path.read_bytes() for path in files})
    assert made[0] == made[1]
    assert {Path(name).suffix for name in made[0]} == {".pdf", ".png", ".csv", ".md", ".tex"}
    pdfs = [content for name, content in made[0].items() if name.endswith(".pdf")]
    assert not any(b"CreationDate" in content for content in pdfs)

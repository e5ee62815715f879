"""Pages in a real browser: the script that takes their pictures, and how they are laid out."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reports.layout import faults

SCRIPT = Path(__file__).parents[2] / "docs" / "screenshots.py"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


def call(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_browser
def test_a_site_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = call("--site", str(tmp_path), "--to", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.strip().endswith("draw the site with `make report`")
    assert "Traceback" not in done.stderr


@pytest.mark.long
@needs_browser
def test_pages_are_taken_as_wide_as_desktops_and_phones(tmp_path: Path) -> None:
    (tmp_path / "noise.html").write_text("<!DOCTYPE html><title>noise</title><p>quiet")
    done = call("--site", str(tmp_path), "--to", str(tmp_path / "pictures"))
    assert done.returncode == 0, done.stderr
    widths = {}
    for path in (tmp_path / "pictures").glob("*.png"):
        header = path.read_bytes()[:24]
        widths[path.name] = struct.unpack(">II", header[16:])[0]
    assert widths == {"noise-desktop.png": 1400, "noise-phone.png": 390}


@needs_browser
def test_faults_of_a_layout_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!DOCTYPE html><body><main><h1>fine</h1>"
        "<p style='margin-top: -60px'>over it</p>"
        "<p style='width: 3000px'>wide</p>"
        "<p style='width: 30px; overflow: hidden; white-space: nowrap'>cut in the middle</p>"
        "<nav style='width: 30px; overflow: auto'>longer_than_it_is_wide</nav>"
        "<img alt='lost' src='lost.png' style='width: 5px; height: 5px'>"
        "<section id='bare'><h2>title</h2></section>"
        "<details><summary>more</summary><p style='width: 2000px'>folded</p></details>"
        "<script>console.error('told'); absent();</script>"
        "<div style='overflow-x: auto'><table style='width: 3000px'><td>may be wide</table></div>"
        "</main></body>"
    )
    assert faults(str(BROWSER), page, 390) == [
        "the page scrolls sideways: 3008 of 390",
        'sticks out: p "wide"',
        'cut: p "cut in the middle"',
        'no picture: img "lost"',
        'cut: nav "longer_than_it_is_wide"',
        'lies over what is above it: p "over it"',
        'nothing in: section#bare "title"',
        'unfolded, sticks out: p "folded"',
        "error: told",
        "error: Uncaught ReferenceError: absent is not defined",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_sticks_out_is_cut_covered_or_empty(full_site: Path, width: int) -> None:
    pages = [*full_site.glob("*.html"), *full_site.glob("studies/*/index.html")]
    found = {page.name: faults(str(BROWSER), page, width) for page in pages}
    assert len(pages) > 8
    assert not {name: wrong for name, wrong in found.items() if wrong}

"""The script that takes pictures of the site: each page at each width, or what is missing."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

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

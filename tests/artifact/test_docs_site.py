"""The documentation as a site: it builds strictly, and what is wrong in it ends the build."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from harness.command_names import commands
from harness.configuration.compose import options
from tests.artifact.shown import ROOT

spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "reference_hooks.py")
hooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hooks)
keys_with_comments = hooks.keys_with_comments

# Each builds the site, which takes a minute; ``make docs`` builds the same in CI.
pytestmark = [pytest.mark.timeout(1200), pytest.mark.long]


def build(folder, site):
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Loaded(HTMLParser):
    """Parser that collects the addresses which a page loads when it opens."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(given.get("src"))
        if tag == "link" and given.get("rel") != "canonical":
            self.addresses.append(given.get("href"))


def test_nothing_is_loaded_from_another_host(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        parser = Loaded()
        parser.feed(page.read_text(encoding="utf-8"))
        loaded = [address for address in parser.addresses if address]
        assert loaded
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], page
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", styles)


def test_documents_of_the_root_folder_are_pages(site):
    shown = (site / "artifact.html").read_text(encoding="utf-8")
    assert 'href="reference/claims.html"' in shown
    assert "test_" not in "".join(path.name for path in site.glob("*.html"))


@pytest.fixture
def checkout(tmp_path):
    """A copy of what the site is made of, without the pages that the program writes."""
    for path in ROOT.iterdir():
        if path.name not in ("docs", "mkdocs.yml", ".git", ".venv"):
            (tmp_path / path.name).symlink_to(path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    lines = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not re.search("docs/reference_hooks|reference/every-", line)]
    assert len(lines) - len(kept) == 4
    (tmp_path / "mkdocs.yml").write_text("".join(kept), encoding="utf-8")
    return tmp_path


FAULTS = [
    ("reference/glossary.md", "[gone](gone.md)", "links to gone.md, which is not there"),
    ("reference/glossary.md", "[gone](../../harness/gone.py)", "../../harness/gone.py"),
    ("reference/glossary.md", "[gone](claims.md#gone)", "does not contain an anchor '#gone'"),
    ("reference/glossary.md", "![gone](../images/gone.png)", "../images/gone.png"),
    ("reference/without_a_place.md", "# Page", "without_a_place.md"),
]


def test_what_is_wrong_ends_the_build(checkout):
    for page, words, _ in FAULTS:
        with (checkout / "docs" / page).open("a", encoding="utf-8") as file:
            file.write(f"\n{words}\n")
    done = build(checkout, checkout / "site")
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert not [complaint for *_, complaint in FAULTS if complaint not in said], said
    assert f"{len(FAULTS)} warnings in strict mode" in said


def test_reference_pages_have_what_the_program_has(site):
    commanded = (site / "reference" / "every-command.html").read_text(encoding="utf-8")
    for name in commands():
        assert f">elastrace {name}<" in commanded
    chosen = (site / "reference" / "every-option.html").read_text(encoding="utf-8")
    for group in ("scheduler", "backend", "engine", "trace"):
        assert not [name for name in options(group) if f"<code>{name}</code>" not in chosen]
    studied = (site / "reference" / "every-study.html").read_text(encoding="utf-8")
    assert "<code>edl_rescale</code>" in studied


def test_keys_have_the_comment_above_them():
    text = (
        "# All.\n_target_: a.B\n# First,\n# second.\nx: 1\ny: [2]\n# Third.\nz: null\nw: 5  # own\n"
    )
    assert list(keys_with_comments(text)) == [
        ("x", 1, "First, second."), ("y", [2], "First, second."),
        ("z", None, "Third."), ("w", 5, "own"),
    ]  # fmt: skip

"""The project as a whole: its files, its licences, its front door."""

import ast
import hashlib
import re
import subprocess
import sys
import tomllib
import warnings
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("harness", "systems", "workloads", "reports")
SOURCES = sorted(path for folder in (*ROOMS, "tests") for path in (ROOT / folder).rglob("*.py"))
TEXTS = [
    *SOURCES,
    *(path for folder in ("configs", "docs") for path in (ROOT / folder).rglob("*.yaml")),
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("*.md"),
    *(ROOT / name for name in ("Makefile", "pyproject.toml", "requirements.lock", ".ci/run")),
    ROOT / "Containerfile",
]

# Spelled so that this file does not match itself.
PRIVATE_PATH = re.compile(r"(?<![\w.~$}{-])/(?:wor[k]|roo[t]|hom[e]|tm[p])(?:/|\b)")
MACHINES = re.compile(r"(?<![\w.~$}{-])/(?:wor[k]|roo[t]|hom[e])/")
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b")


def relative(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("pattern", [PRIVATE_PATH, UNFINISHED], ids=["private path", "unfinished"])
def test_no_file_holds(pattern):
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not found


def test_no_record_names_a_folder_of_the_machine_it_was_made_on():
    texts = [p for end in ("json", "jsonl") for p in (ROOT / "results/reference").rglob(f"*.{end}")]
    found = [
        relative(p) for p in texts if ".unpacked" not in p.parts and MACHINES.search(p.read_text())
    ]
    assert texts
    assert not found


def test_patterns_find_what_they_are_for():
    assert PRIVATE_PATH.search("open('/tm" + "p/x')")
    assert PRIVATE_PATH.search("see /roo" + "t/.cache")
    assert MACHINES.search('"problem": "File \\"/wor' + 'k/L/tests/run.py\\""')
    assert not PRIVATE_PATH.search("workloads/tmp_path .github/workflows/ci.yml docs/home/x")
    assert UNFINISHED.search("# TO" + "DO: later")


def test_every_module_says_what_it_is():
    silent = [
        relative(path)
        for path in SOURCES
        if path.name != "__init__.py"
        and not ast.get_docstring(ast.parse(path.read_text()))
        and "tests" not in path.parts
    ]
    assert not silent


def test_long_files_are_named():
    """No limit: a file is as long as its idea. Past 500 lines there may be two in it."""
    for path in SOURCES:
        if (length := len(path.read_text().splitlines())) > 500:
            warnings.warn(
                f"{relative(path)} has {length} lines: are there two ideas?", stacklevel=1
            )


CATALOGUES = ("systems/schedulers", "reports/figures", "workloads")
"""Folders with one implementation a file."""


def test_folders_stay_small():
    files = Counter(
        relative(path.parent) for path in SOURCES if not relative(path).startswith("te")
    )
    wide = {folder: count for folder, count in files.items() if count > 30}
    assert not set(wide) - set(CATALOGUES), "group files by idea"


def test_no_room_without_a_name():
    assert not [relative(path) for path in SOURCES if path.stem in ("utils", "helpers", "misc")]


def shipped_data():
    return sorted(
        path
        for folder in (ROOT / "configs").rglob("data")
        for path in folder.rglob("*")
        if path.is_file()
    )


def listed_data():
    """Path → (licence, sha256), from the table of DATA_LICENSES.md."""
    rows = re.findall(
        r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| `([0-9a-f]{64})` \|$",
        (ROOT / "DATA_LICENSES.md").read_text(),
        flags=re.MULTILINE,
    )
    return {path: (source.strip(), licence.strip(), sha) for path, source, licence, sha in rows}


def test_every_shipped_data_file_is_listed_with_its_hash():
    listed = listed_data()
    missing = [
        f"| `{relative(path)}` | source | licence |"
        f" `{hashlib.sha256(path.read_bytes()).hexdigest()}` |"
        for path in shipped_data()
        if listed.get(relative(path), ("", "", ""))[2]
        != hashlib.sha256(path.read_bytes()).hexdigest()
    ]
    assert shipped_data()
    assert not missing, "put these rows into DATA_LICENSES.md"


def test_no_listed_data_file_is_gone_or_without_source_and_licence():
    for path, (source, licence, _) in listed_data().items():
        assert (ROOT / path).is_file(), path
        assert len(source) > 10, path
        assert licence, path


def test_licence_texts_named_in_the_table_are_shipped():
    text = (ROOT / "DATA_LICENSES.md").read_text()
    named = set(re.findall(r"\(licenses/([^)]+)\)", text))
    assert named
    assert named == {path.name for path in (ROOT / "licenses").iterdir()}


def test_lock_file_pins_every_dependency_once():
    lines = [
        line
        for line in (ROOT / "requirements.lock").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", line) for line in lines)
    pins = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower(): line for line in lines}
    assert len(pins) == len(lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    asked = [re.split("[<>=~!]", requirement)[0] for requirement in wanted]
    assert len(asked) > 20
    assert not [name for name in asked if name.lower().replace("_", "-") not in pins]


def test_help_teaches():
    done = subprocess.run(
        [sys.executable, "-m", "harness", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for group in ("trace", "cluster", "placement", "scheduler", "backend", "engine", "profile"):
        assert group in done.stdout


@pytest.mark.parametrize(
    "document",
    sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_links_of_documents_lead_somewhere(document):
    broken = [
        target
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert not broken

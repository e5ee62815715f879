"""The container's recipe, as far as it can be checked without building it."""

import re

import pytest

from tests.artifact.shown import ROOT, make_targets

RECIPE = (ROOT / "Containerfile").read_text(encoding="utf-8")
LINES = [
    line
    for line in RECIPE.replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith("#")
]
KNOWN = {"FROM", "ARG", "RUN", "USER", "WORKDIR", "COPY", "CMD"}


def instructions(word):
    return [line.partition(" ")[2] for line in LINES if line.split()[0] == word]


def test_it_says_that_nobody_has_built_it():
    assert RECIPE.startswith("# NOT BUILT YET")
    assert "has not been built" in (ROOT / "ARTIFACT.md").read_text()


def test_every_line_is_an_instruction_and_the_first_names_the_base():
    assert {line.split()[0] for line in LINES} <= KNOWN
    assert LINES[0] == "FROM python:3.11-slim"


def test_what_it_copies_is_there():
    named = [
        name
        for copied in instructions("COPY")
        for name in copied.split()[:-1]
        if not name.startswith("--")
    ]
    assert len(named) > 4
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_first_copy_is_enough_to_install():
    """What ``make env`` needs: its prerequisites, and what pyproject.toml names."""
    first = instructions("COPY")[0].split()
    makefile = (ROOT / "Makefile").read_text()
    needed = re.search(r"^\$\(INSTALLED\): ([^|\n]+)", makefile, flags=re.MULTILINE)
    project = (ROOT / "pyproject.toml").read_text()
    files = [*needed[1].split(), *re.findall(r'"(README\.md|[A-Z_]*LICENSES?(?:\.md)?)"', project)]
    assert len(files) == 5
    assert set(files) | {"Makefile"} <= set(first)
    assert '"licenses/*"' in project
    assert "licenses licenses/" in instructions("COPY")[1]


def test_make_targets_it_names_are_there_and_smoke_is_its_check():
    targets = re.findall(r"\bmake (?!\\)([a-z-]+)", "\n".join(instructions("RUN")))
    assert "env" in targets
    assert set(targets) <= make_targets()
    (check,) = instructions("CMD")
    assert check == '["make", "smoke"]'


def test_it_leaves_root_before_anything_of_the_project_is_copied():
    words = [line.split()[0] for line in LINES]
    assert words.index("USER") < words.index("COPY")
    assert instructions("USER") == ["evaluator"]
    assert "evaluator" in next(line for line in instructions("RUN") if "useradd" in line)
    assert all(copied.startswith("--chown=evaluator ") for copied in instructions("COPY"))


def test_the_index_is_an_argument():
    (argument,) = instructions("ARG")
    assert argument == 'TORCH_INDEX=""'
    assert any('PIP_EXTRA_INDEX_URL="$TORCH_INDEX"' in line for line in instructions("RUN"))


@pytest.mark.parametrize("folder", ["harness", "configs", "results/reference", "tests", "reports"])
def test_what_the_check_needs_is_not_left_out(folder):
    text = (ROOT / "Containerfile.dockerignore").read_text()
    patterns = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert ".git" in patterns
    assert not [pattern for pattern in patterns if f"{folder}/".startswith(f"{pattern}/")]

"""The commands that documents and report pages show, as words."""

import html
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from harness.command_names import PROGRAM, commands

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARTIFACT.md", "CONTRIBUTING.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "history.md"),
]
"""Documents whose commands are those of today; history.md keeps those of its time."""
_PYTHON = re.compile(r"(\.venv/bin/)?python3?$")
PLACEHOLDER = re.compile(r"(^|[=/.])[A-Z][A-Z_]*(,[.]{3})?($|[=/.])|\.\.\.|…")
"""A word that stands for others: NAME, GROUP=OPTION, results/runs/A."""


@dataclass(frozen=True)
class Shown:
    """A command."""

    program: str
    """``make``, or the module after ``python -m``, also of a command of ``elastrace``."""
    words: tuple[str, ...]
    text: str

    def __str__(self):
        return self.text


def commands_of(document):
    """Every command in the code of a Markdown document, none twice."""
    text = document.read_text(encoding="utf-8")
    fences = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for fence in fences for line in fence.replace("\\\n", " ").splitlines()]
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", rest)]
    return unique(lines)


def commands_of_page(path):
    """Every command on a page of the report."""
    codes = re.findall(r"<code>(.*?)</code>", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return unique(html.unescape(code) for code in codes)


def unique(lines):
    found = {}
    for line in lines:
        shown = read(line)
        if shown is not None:
            found[shown.text] = shown
    return list(found.values())


def read(line):
    """The command in a line of code; None if there is none."""
    text = re.split(r"\s#\s|\s{2,}#", line.strip())[0].strip()
    if not re.match(r"([A-Z_]+=\S+ )*(make|elastrace|\S*python3?) ", text + " "):
        return None
    words = shlex.split(text)
    while re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    if words[0] == "make":
        return Shown("make", tuple(words[1:]), text)
    if words[0] == PROGRAM:
        return read_program(words[1:], text)
    if _PYTHON.match(words[0]) and words[1:2] == ["-m"] and len(words) > 2:
        return Shown(words[2], tuple(words[3:]), text)
    return None


def read_program(words, text):
    """The module's form of a command of ``elastrace``; None for the bare name and its flags."""
    if not words or words[0].startswith("-") or PLACEHOLDER.search(words[0]):
        return None
    command = commands().get(words[0])
    if command is None:
        return Shown(f"{PROGRAM}.{words[0]}", tuple(words[1:]), text)
    return Shown(command.module, tuple(command.words(words[1:])), text)


def make_targets():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", text, flags=re.MULTILINE))

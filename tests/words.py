"""``python -m tests.words [PATH ...]``: find words and openings that make sentences hard to read.

The check reads docstrings, comments and texts of the sources, the documents, and the comments and
descriptions of the configurations. It prints ``file:line: kind: text`` for each finding. The exit
code is 1 if a kind has more findings than ``MOST``, or if an entry of ``EXCUSED`` excuses nothing.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("harness", "systems", "workloads", "reports")

MOST = 0
"""Largest number of findings of a kind that passes."""

EXCUSED = (
    # Reasons of refused jobs are part of committed records, which never change.
    ("systems/schedulers/elasticflow.py", "cannot be kept beside those of the jobs"),
    ("systems/schedulers/saxena_dp.py", "newcomers=drop lets nobody wait"),
)
"""Texts that may stay, each by its file and a part of it."""

WORDS = {
    name: re.compile(rf"(?<![\w./-]){pattern}(?![\w/-])".replace(" ", r"\s+"), re.IGNORECASE)
    for name, pattern in {
        "anew": "anew",
        "beside": "beside",
        "held to": "held to",
        # As in "stands below"; "stands for" is plain English.
        "stands": r"(?:stands(?! for\b)|stand (?:at|below|by|here|next|there|under))",
        "nobody": "nobody",
        "nought": "nought",
        "somebody": "somebody",
        "thereof": "thereof",
        "whence": "whence",
        "whoever": "whoever",
    }.items()
}

_NO_VERBS = """
By How Of That What When Where Whether Which Who Whoever Whom Whose Why
A All An And Another Any As At Both Each Every For From If In It Its Like Never No None Not On
One Only Other Our Same Some The Their There These They This Those To Two With Without
Number Path Seconds Size Text Time True False
"""
"""First words with which a function's docstring must not open: they are no imperatives."""

_VERBS_WITH_THESE_ENDS = """
Access Address Bring Compress Cross Discuss Embed Express Feed Focus Guess Miss Need Pass Press
Proceed Process Seed Shed
"""
"""Imperatives that end in s, ed or ing."""

_NO_NOUNS = """
By How Of That What When Where Whether Which Who Whose Why
Asks Computes Decides Does Draws Gives Has Holds Is Keeps Knows Lets Makes Puts Raises Reads
Returns Says Sends Serves Takes Tells Waits Writes Wraps
Compute Decide Do Give Hold Keep Know Let Make Put Raise Read Return Say Send Serve Take Tell
Wait Write
"""
"""First words with which a class's docstring must not open: it should open with a noun."""

NO_VERBS = frozenset(_NO_VERBS.split())
VERBS_WITH_THESE_ENDS = frozenset(_VERBS_WITH_THESE_ENDS.split())
NO_NOUNS = frozenset(_NO_NOUNS.split())

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_FIRST_WORD = re.compile(r"[A-Za-z]+")
_CODE = re.compile(r"`[^`]+`")
_SHOWN = 100
"""Longest text that is printed with a finding."""


class Text(NamedTuple):
    """A piece of text, with the line on which it begins."""

    line: int
    text: str


class Finding(NamedTuple):
    """A word or an opening that the check does not allow."""

    path: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.text[:_SHOWN]}"


def check_source(path: str, source: str) -> Iterator[Finding]:
    """Yield the findings in a Python file."""
    tree = ast.parse(source)
    if any(kind.partition(" ")[0][:5] in source.lower() for kind in WORDS):
        for text in (*_strings(tree), *_comments(source)):
            yield from _words(path, text)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED[1:]) and (docstring := ast.get_docstring(node)):
            first = _FIRST_WORD.match(docstring)
            word = first.group() if first else ""
            if isinstance(node, ast.ClassDef):
                if word in NO_NOUNS:
                    yield Finding(path, node.lineno, "class opens with", docstring.split("\n")[0])
            elif not _is_property(node) and _is_no_imperative(word):
                yield Finding(path, node.lineno, "function opens with", docstring.split("\n")[0])


def check_document(path: str, document: str) -> Iterator[Finding]:
    """Yield the findings in a Markdown file, without its code."""
    is_code = False
    for number, line in enumerate(document.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield from _words(path, Text(number, line))


def check_configuration(path: str, configuration: str) -> Iterator[Finding]:
    """Yield the findings in the comments and the descriptions of a YAML file."""
    is_description = False
    for number, line in enumerate(configuration.splitlines(), start=1):
        if line[:1].strip():
            is_description = line.startswith("description:")
        if is_description:
            yield from _words(path, Text(number, line))
        elif comment := re.search(r"(?:^|\s)#(.*)", line):
            yield from _words(path, Text(number, comment.group(1)))


def _strings(tree: ast.Module) -> Iterator[Text]:
    """Yield docstrings and texts of several words; keys and names are single words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield Text(node.lineno, node.value)


def _comments(source: str) -> Iterator[Text]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], token.string)


def _words(path: str, text: Text) -> Iterator[Finding]:
    """Yield a finding for each word of the list, also across lines but not inside backquotes."""
    for kind, pattern in WORDS.items():
        # A cheap look first: nearly no text has any of the words.
        if kind.partition(" ")[0][:5] in text.text.lower():
            prose = _CODE.sub(lambda code: re.sub(r"[^\n]", "_", code.group()), text.text)
            for match in pattern.finditer(prose):
                line = text.line + text.text.count("\n", 0, match.start())
                around = text.text[max(0, match.start() - 40) : match.end() + _SHOWN]
                yield Finding(path, line, kind, " ".join(around.split()))


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any("property" in name or name.endswith(".setter") for name in names)


def _is_no_imperative(word: str) -> bool:
    return word in NO_VERBS or (
        word.endswith(("s", "ed", "ing")) and word not in VERBS_WITH_THESE_ENDS
    )


def findings(root: Path = ROOT, excused: Iterable[tuple[str, str]] = EXCUSED) -> list[Finding]:
    """Return all findings below a folder, in order; an excuse that fits no text is one as well."""
    found: list[Finding] = []
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            found += check_source(path.relative_to(root).as_posix(), path.read_text("utf-8"))
    documents = [*(root / "docs").rglob("*.md"), root / "README.md", root / "CONTRIBUTING.md"]
    written_then = root / "docs" / "history.md"
    for path in sorted(path for path in documents if path.is_file() and path != written_then):
        found += check_document(path.relative_to(root).as_posix(), path.read_text("utf-8"))
    for path in sorted((root / "configs").rglob("*.yaml")):
        found += check_configuration(path.relative_to(root).as_posix(), path.read_text("utf-8"))
    for file, part in excused:
        used = [each for each in found if each.path == file and part in each.text]
        found = [each for each in found if each not in used]
        if not used:
            found.append(Finding(file, 1, "excuse without a text", part))
    return found


def main(paths: list[str]) -> int:
    """Print the findings, only below these paths if any are given, and return the exit code."""
    found = [each for each in findings() if not paths or each.path.startswith(tuple(paths))]
    for each in found:
        print(each)
    counts = Counter(each.kind for each in found)
    if counts:
        print(", ".join(f"{count} x {kind}" for kind, count in counts.most_common()))
    return int(any(count > MOST for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The check of words finds what was planted, and nothing in plain sentences."""

import pytest

from tests import words

PLAIN = '''
"""A module of plain sentences; ``stands`` for code is no sentence."""

KEY = "beside"
TITLE = "Loss compared with fixed workers"


class Row:
    """One row of a table."""

    @property
    def name(self):
        """Name of the row."""


def passed():
    """Pass the row on; EDL stands for elastic deep learning."""
'''


@pytest.fixture
def tree(tmp_path):
    """A folder like the project's, whose texts are plain."""
    for name in ("harness", "docs", "configs"):
        (tmp_path / name).mkdir()
    (tmp_path / "harness/plain.py").write_text(PLAIN.replace("``stands`` for code", "A key"))
    (tmp_path / "docs/plain.md").write_text("Workers are next to each other.\n```\nanew\n```\n")
    (tmp_path / "configs/plain.yaml").write_text("# A plain comment.\nnote: written anew\n")
    return tmp_path


def found(tree):
    return [str(each) for each in words.findings(tree, excused=())]


def test_plain_sentences_pass(tree):
    assert not found(tree)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('"""Plain."""\n# measured anew\n', "2: anew"),
        ('"""Rows beside\neach other."""\n', "1: beside"),
        ('"""It is held\n    to a bound."""\n', "1: held to"),
        ('"""Plain."""\nTEXT = "and nobody knows"\n', "2: nobody"),
        ('"""Plain."""\nTEXT = f"{1} is held to a bound"\n', "2: held to"),
        ('"""The record stands below."""\n', "1: stands"),
        ('def f():\n    """Whether it ends."""\n', "1: function opens with"),
        ('def f():\n    """Returns the rows."""\n', "1: function opens with"),
        ('async def f():\n    """The rows."""\n', "1: function opens with"),
        ('class Row:\n    """Holds a row."""\n', "1: class opens with"),
        ('class Row:\n    """What a row has."""\n', "1: class opens with"),
    ],
)
def test_a_planted_tic_is_found_in_a_source(tree, text, kind):
    (tree / "harness/planted.py").write_text(text)
    (line,) = found(tree)
    assert line.startswith(f"harness/planted.py:{kind}: ")


def test_a_planted_tic_is_found_in_a_document_and_a_configuration(tree):
    (tree / "docs/planted.md").write_text("One.\n\nWhoever reads `anew` may ask.\n")
    (tree / "configs/planted.yaml").write_text(
        "description: a text\n  that somebody wrote\nkey: 1  # beside the other\n"
    )
    assert [line.rpartition(": ")[0] for line in found(tree)] == [
        "docs/planted.md:3: whoever",
        "configs/planted.yaml:2: somebody",
        "configs/planted.yaml:3: beside",
    ]


def test_an_excuse_covers_its_text_alone_and_must_be_used(tree):
    (tree / "harness/planted.py").write_text('"""One beside two."""\n# three beside four\n')
    excused = [("harness/planted.py", "One beside")]
    (left,) = words.findings(tree, excused)
    assert left.line == 2
    (tree / "harness/planted.py").write_text('"""One."""\n')
    (unused,) = words.findings(tree, excused)
    assert unused.kind == "excuse without a text"

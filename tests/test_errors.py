"""The tree of errors: its drawing in ``harness/errors.py`` is what the classes are."""

import ast

import harness.errors as errors
from tests.test_frame import ROOMS, ROOT, relative

BASE = "ElastraceError"
OUTSIDE = {"UnsafeFileError", "BoundsError", "CellError"}
"""Errors of files, YAML and cells: each is a kind of an error of Python or of a library."""
OF_PYTHON = {"Exception", "OSError", "RuntimeError", "ValueError", "yaml.MarkedYAMLError"}


def classes():
    """Bases of every class of the packages, by name and module; read, since some need a library."""
    found = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    module = relative(path).removesuffix(".py").replace("/", ".")
                    found[node.name, module] = {ast.unparse(base) for base in node.bases}
    return found


def drawn(base, found, prefix=""):
    """The tree below a class, as lines."""
    own = sorted(key for key, bases in found.items() if base in bases)
    lines = []
    for name, module in own:
        is_last = (name, module) == own[-1]
        lines.append(f"{prefix}{'└──' if is_last else '├──'} {name}: {module}")
        lines += drawn(name, found, prefix + ("    " if is_last else "│   "))
    return lines


def test_every_error_is_in_the_tree():
    found = classes()
    lines = drawn(BASE, found)
    assert len(lines) > 30
    inside = {line.rpartition("─ ")[2].partition(":")[0] for line in lines} | {BASE}
    stray = {name for (name, _), bases in found.items() if bases & OF_PYTHON and name not in inside}
    assert stray == OUTSIDE


def test_the_drawing_is_the_tree():
    tree = "\n".join([BASE, *drawn(BASE, classes())])
    assert errors.__doc__ is not None
    shown = "\n".join(line.removeprefix("    ") for line in errors.__doc__.splitlines())
    assert tree in shown, tree

"""Hook of MkDocs: reference pages that are written by the program itself when the site is built.

One page has the help of every command. The others have every option of every group with its keys,
and every study, from the files in ``configs/``.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import yaml
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from harness.command_names import PROGRAM, commands
from harness.configuration.coerce import show
from harness.configuration.compose import defaults, option_files
from harness.configuration.help import first_comment, of_group
from harness.configuration.schema import GROUPS, KEYS
from harness.program.main import main

WITH_KEYS = ("placement", "scheduler", "backend", "engine", "launcher", "tracking")
"""Groups whose options are classes with keys of their own; those of others are mostly data."""
LONGEST = 60
"""Characters of a default that a table shows."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    pages = {
        "every-command": commands_page,
        "every-option": options_page,
        "every-study": studies_page,
    }
    for name, page in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files


def commands_page() -> str:
    """Return the page with the help of the program, of each command and of each of its parts."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    if done.returncode:
        raise PluginError(f"the help of the commands cannot be printed: {done.stderr}")
    lines = ["# Every command", "", "The program's own help, as it is printed.", ""]
    for words, text in json.loads(done.stdout).items():
        lines += [f"## `{words}`", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines)


def print_helps() -> None:
    """Print the help of every command, as JSON. Its modules are imported once, then forked."""
    os.environ["COLUMNS"] = "96"
    calls: list[tuple[str, ...]] = [()]
    for name, command in commands().items():
        calls += [(name,), *((name, part) for part in command.parts)]
        is_package = find_spec(command.module).submodule_search_locations is not None
        importlib.import_module(f"{command.module}.__main__" if is_package else command.module)
    helps = {" ".join((PROGRAM, *call)): _help(call) for call in calls}
    json.dump(helps, sys.stdout)


def _help(call: Sequence[str]) -> str:
    with tempfile.TemporaryFile("w+") as file:
        child = os.fork()
        if not child:
            sys.argv = [PROGRAM, *call, "--help"]
            os.dup2(file.fileno(), 1)
            main()
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{PROGRAM} {' '.join(call)} --help failed")
        file.seek(0)
        return file.read()


def options_page() -> str:
    """Return the page with every key of a run, and every option of every group with its keys."""
    chosen, values = defaults()
    lines = ["# Every option", "", "From the files in `configs/`.", "", "## Keys of a run", ""]
    rows = [(f"`{key}`", _code(values.get(key)), KEYS[key].metadata["help"]) for key in KEYS]
    lines += _table(("key", "default", "says"), rows)
    for group in GROUPS:
        files = option_files(group)
        lines += [f"## {of_group(group).splitlines()[0]}", ""]
        if group not in WITH_KEYS:
            rows = [
                (_named(name, chosen.get(group)), _cell(first_comment(path.read_text("utf-8"))))
                for name, path in files.items()
            ]
            lines += _table(("option", "is"), rows)
            continue
        for name, path in files.items():
            text = path.read_text("utf-8")
            lines += [f"### {_named(name, chosen.get(group))}", "", _cell(first_comment(text)), ""]
            rows = [
                (f"`{group}.{key}`", _code(value), _cell(says))
                for key, value, says in keys_with_comments(text)
            ]
            lines += _table(("key", "default", "says"), rows) if rows else []
    return "\n".join(lines)


def studies_page() -> str:
    """Return the page with every study and what it measures."""
    lines = ["# Every study", "", "`elastrace study NAME` runs one.", ""]
    rows = []
    for name, path in option_files("study").items():
        document = yaml.safe_load(path.read_text("utf-8"))
        also = ", ".join(f"`{other}`" for other in document.get("also", ()))
        rows.append((f"`{name}`", path.parent.name, _cell(document["description"]), also))
    return "\n".join(lines + _table(("study", "folder", "description", "also called"), rows))


def keys_with_comments(text: str) -> Iterator[tuple[str, Any, str]]:
    """Yield the keys of a YAML file: name, value, and the comment above them.

    Keys without a comment in between share the one above the first.
    """
    values = yaml.safe_load(text)
    comment: list[str] = []
    follows = False
    for line in text.splitlines():
        if line.startswith("#"):
            comment = [*comment, line.lstrip("# ")] if follows else [line.lstrip("# ")]
            follows = True
            continue
        follows = False
        key = line.partition(":")[0]
        if key == "_target_":
            comment = []
        elif key in values:
            _, _, end = line.partition("  # ")
            yield key, values[key], end or " ".join(comment)


def _named(name: str, default: str | None) -> str:
    return f"`{name}` (default)" if name == default else f"`{name}`"


def _code(value: Any) -> str:
    text = show(value)
    return f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = (head, ["---"] * len(head), *rows)
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


if __name__ == "__main__":
    print_helps()

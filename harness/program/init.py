"""``elastrace init FOLDER``: make a folder of the user's own, with one example of each part."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.command_names import spelt
from harness.errors import Problem, UserError, render
from harness.machine.command_parser import CommandParser

_TEMPLATE = Path(__file__).with_name("template")


def main(words: Sequence[str] | None = None) -> int:
    """Make the folder, print what to do next, and return the exit code."""
    parser = CommandParser(
        prog=spelt("harness.program.init"),
        description="Make a folder with a scheduler, a workload, a trace, a profile and a study of "
        "your own, each a small commented example that runs.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new or empty folder")
    folder: Path = parser.parse_args(words).folder
    try:
        make(folder)
    except UserError as error:
        print(render(error.problems), file=sys.stderr)
        return 2
    print(f"Made {folder}. Its README.md says what each file is for. Next:")
    for command in (f"cd {folder}", *_commands()):
        print(f"  {command}")
    return 0


def make(folder: Path) -> None:
    """Copy the template into a folder.

    Raises:
        UserError: the folder is not empty, or is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fact = "is not empty" if folder.is_dir() else "is a file"
        raise UserError([Problem(str(folder), fact, "name a new folder; nothing is overwritten")])
    shutil.copytree(
        _TEMPLATE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )


def _commands() -> list[str]:
    """Return the commands at the top of the template's README."""
    text = (_TEMPLATE / "README.md").read_text(encoding="utf-8")
    block = text.split("```bash\n")[1].split("```")[0]
    return [line for line in block.splitlines() if line]

"""Entry of the program ``elastrace``: finds a command's module, loads it alone and runs it."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import textwrap
from functools import partial
from typing import NoReturn

from harness.command_names import PROGRAM, commands
from harness.errors import Problem, render, suggest
from harness.machine.interrupts import refuse_hidden, run_command

_WIDTH = 96

_PURPOSE = """\
Replays traces of training jobs under schedulers and elastic backends, simulated or with real
training on this machine, and reports what came out. Without arguments, `elastrace run`
simulates a real trace in seconds."""

_EXAMPLES = (
    ("simulate the default trace", "elastrace run"),
    ("four runs side by side", "elastrace sweep scheduler=fifo,tiresias seed=0,1"),
    ("a folder of your own, with an example of each part", "elastrace init my-study"),
)

_EXITS = (
    ("0", "done"),
    ("1", "failed, or a check found a difference"),
    ("2", "something in the command or its files is wrong; nothing was started"),
)


def main() -> NoReturn:
    """Run the command that the user gave, and exit with its code."""
    words = sys.argv[1:]
    name = words[0] if words else "--help"
    if name not in commands():
        run_command(partial(_say, name))
    refuse_hidden()
    _look_in_this_folder_last()
    command = commands()[name]
    if command.needs and len(words) == 1:
        run_command(partial(_say_missing, name))
    # Loaded before ``run_command``, so that Ctrl-C ends the process at once meanwhile.
    main_of = command.load()
    run_command(partial(main_of, command.words(words[1:])))


def version() -> str:
    """Return the version that is installed."""
    return importlib.metadata.version(PROGRAM)


def overview() -> str:
    """Return the text of ``elastrace --help``."""
    lines = [_PURPOSE, "", "Usage:", f"  {PROGRAM} COMMAND [ARGUMENTS]", "", "Commands:"]
    for name, command in commands().items():
        lines += textwrap.wrap(
            command.says, _WIDTH, initial_indent=f"  {name:<12}", subsequent_indent=" " * 14
        )
    lines += [
        "", f"{PROGRAM} COMMAND --help has a command's arguments with their defaults;",
        f"{PROGRAM} run --help GROUP explains every option of a group, such as scheduler.",
        "", "Examples:",
    ]  # fmt: skip
    lines += [line for means, words in _EXAMPLES for line in (f"  # {means}", f"  {words}")]
    flags = (("--version", "the version"), ("-h, --help", "this text"))
    for title, rows in (("Flags:", flags), ("Exit codes:", _EXITS)):
        width = max(len(word) for word, _ in rows)
        lines += ["", title, *(f"  {word:<{width}}  {means}" for word, means in rows)]
    return "\n".join(lines)


def _say(word: str) -> int:
    """Answer a word that is no command, and return the exit code."""
    if word in ("-h", "--help"):
        print(overview())
    elif word in ("-V", "--version"):
        print(f"{PROGRAM} {version()}")
    else:
        hint = suggest(word, commands())
        print(render([Problem(f"{PROGRAM} {word}", "unknown command", hint)]), file=sys.stderr)
        return 2
    return 0


def _say_missing(name: str) -> int:
    """Report that a command was given without the name it needs, and return the exit code."""
    from harness.configuration.compose import options

    key = str(commands()[name].key)
    hint = f"give one of {', '.join(options(key))}, or a YAML file of your own"
    print(render([Problem(f"{PROGRAM} {name}", f"names no {key}", hint)]), file=sys.stderr)
    return 2


def _look_in_this_folder_last() -> None:
    """Let this process and those that it starts find the user's modules in the current folder.

    That folder comes after all others, so nothing in it can hide a module of Python, of Elastrace
    or of a library. ``python -m`` looks there first. The program's own processes are started by
    ``python -m``, hence the two variables: the same folders in the same order, and no other.
    """
    here = os.getcwd()
    if here not in sys.path and not sys.flags.safe_path:
        sys.path.append(here)
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    os.environ["PYTHONSAFEPATH"] = "1"

"""Commands of the program ``elastrace``, and how a user writes each of them.

Every command is a module that ``python -m`` runs as well. Texts that name a command use the form
that the user has typed.
"""

from __future__ import annotations

import functools
import importlib
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

PROGRAM = "elastrace"
"""Name of the console script, which has every command."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the program; ``command_names.yaml`` says what each field means."""

    module: str
    says: str
    first: str | None = None
    key: str | None = None
    needs: bool = False
    parts: tuple[str, ...] = ()

    def words(self, given: Sequence[str]) -> list[str]:
        """Return the words for the module: those that the user gave, as ``python -m`` takes
        them."""
        words = list(given)
        if words and self.is_named(words[0]):
            words[0] = f"{self.key}={words[0]}"
        return words if self.first is None else [self.first, *words]

    def load(self) -> Callable[[Sequence[str]], int]:
        """Import the command's module and return its ``main``."""
        spec = find_spec(self.module)
        is_package = spec is not None and spec.submodule_search_locations is not None
        module = importlib.import_module(f"{self.module}.__main__" if is_package else self.module)
        main: Callable[[Sequence[str]], int] = module.main
        return main

    def is_named(self, word: str) -> bool:
        """Return whether a first word is the bare value of the command's key."""
        return self.key is not None and not word.startswith((f"{self.key}=", "-"))


@functools.cache
def commands() -> Mapping[str, Command]:
    """Return every command by its name, in the order of the help."""
    # Not earlier: until the program has seen to Ctrl-C, it imports nothing large.
    import yaml

    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return {
        name: Command(**{**entry, "parts": tuple(entry.get("parts", ()))})
        for name, entry in yaml.safe_load(text).items()
    }


def is_program() -> bool:
    """Return whether this process is the program ``elastrace``, not ``python -m``."""
    return Path(*sys.argv[:1]).name == PROGRAM


def spelt(module: str, *words: str) -> str:
    """Return a command for the user to give, in the form that the user has typed.

    Args:
        module: the module that ``python -m`` runs.
        words: arguments of the module.
    """
    if is_program():
        # From the last, because ``run``, which takes any words of its module, is the first.
        for name, command in reversed([*commands().items()]):
            rest = _without(command, words) if command.module == module else None
            if rest is not None:
                return shlex.join([PROGRAM, name, *rest])
    return shlex.join(["python", "-m", module, *words])


def _without(command: Command, words: Sequence[str]) -> list[str] | None:
    """Return the words after a command's name; None if other words belong to it."""
    rest = list(words)
    if command.first is not None:
        if command.first not in rest:
            return None
        rest.remove(command.first)
    if command.key is not None and rest and rest[0].startswith(f"{command.key}="):
        return [rest[0].partition("=")[2], *rest[1:]]
    return None if command.needs else rest

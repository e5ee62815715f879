"""Parser of a command's arguments, with help in one style: wrapped texts, every default shown."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable
from typing import Any

_WIDTH = 96
_HEADINGS = {"positional arguments": "Arguments"}


class HelpFormatter(argparse.HelpFormatter):
    """Formatter with the headings of ``elastrace run --help``. It adds defaults to the help of
    options, and keeps the lines of a text."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_WIDTH)

    def start_section(self, heading: str | None) -> None:
        """Begin a section; its heading begins with a capital letter."""
        text = heading or ""
        super().start_section(_HEADINGS.get(text, text[:1].upper() + text[1:]))

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        """Add the usage line."""
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help
        is_told = text is None or "default" in text or not action.option_strings
        default = action.default
        if is_told or default is None or default is False or default in ([], argparse.SUPPRESS):
            return text
        return f"{text} (default: %(default)s)"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            textwrap.fill(
                line, width, initial_indent=indent, subsequent_indent=indent,
                break_on_hyphens=False, break_long_words=False,
            )
            for line in text.splitlines()
        )  # fmt: skip


class CommandParser(argparse.ArgumentParser):
    """Parser whose help, and whose subcommands' help, is by ``HelpFormatter``."""

    def __init__(self, **how: Any) -> None:
        how.setdefault("formatter_class", HelpFormatter)
        super().__init__(**how)

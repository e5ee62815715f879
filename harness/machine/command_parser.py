"""Parser of a command's arguments, with help in one style: wrapped texts, every default shown."""

from __future__ import annotations

import argparse
from typing import Any


class HelpFormatter(argparse.HelpFormatter):
    """Formatter that adds defaults to the help of options, and keeps texts of several lines."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help
        is_told = text is None or "default" in text or not action.option_strings
        if is_told or action.default in (None, False, [], argparse.SUPPRESS):
            return text
        return f"{text} (default: %(default)s)"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """Parser whose help, and whose subcommands' help, is by ``HelpFormatter``."""

    def __init__(self, **how: Any) -> None:
        how.setdefault("formatter_class", HelpFormatter)
        super().__init__(**how)

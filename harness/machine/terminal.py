"""Output on a terminal: tables and durations."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from harness.machine.plain_output import plain, unwrapped


def console(stderr: bool = False) -> Console:
    """Return a console; without a terminal it is wide enough for the tables."""
    stream = unwrapped(sys.stderr if stderr else sys.stdout)
    width = None if stream.isatty() else 200
    return _Console(
        file=stream, width=width, highlight=False, soft_wrap=False, markup=False, emoji=False
    )


class _Console(Console):
    """Console that shows texts unchanged: it reads no styles in brackets, and spells out control
    characters.

    A closed pipe is an exception, as with ``print``; ``run_command`` handles it.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as shown, with control characters spelt out."""
        return super().render_str(plain(text), **options)

    def on_broken_pipe(self) -> None:
        """Raise ``BrokenPipeError``; rich would end the process with exit code 1, without a
        message."""
        raise BrokenPipeError


def seconds(value: float) -> str:
    """Return a duration as text: ``850 ms``, ``12.3 s``, ``4 min 5 s``, ``2 h 10 min``."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"

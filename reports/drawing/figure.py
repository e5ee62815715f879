"""Drawings and tables that figure modules return, or the reason why there are none."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column names the row."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_html(self, links: Mapping[str, str] | None = None) -> str:
        """Return an HTML table with escaped texts.

        Args:
            links: targets of links, by the name of a row.
        """
        kinds = [' class="text"' if self.is_text(at) else "" for at in range(len(self.header))]
        head = "".join(
            f"<th{kind}>{html.escape(cell)}</th>"
            for kind, cell in zip(kinds, self.header, strict=True)
        )
        body = "\n".join(
            f'<tr><th scope="row">{_linked(row[0], links or {})}</th>'
            + "".join(
                f"<td{kind}>{html.escape(cell)}</td>"
                for kind, cell in zip(kinds[1:], row[1:], strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        return (
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>\n{body}\n</tbody></table></div>"
        )

    def is_text(self, column: int) -> bool:
        """Return whether a column has words, not numbers."""
        cells = [row[column] for row in self.rows if row[column]]
        return bool(cells) and all(cell[0].isalpha() for cell in cells)

    def to_markdown(self) -> str:
        """Return a Markdown table with numbers aligned to the right."""
        lines = [list(self.header), *map(list, self.rows)]
        cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
        rule = ["---", *("---:" for _ in self.header[1:])]
        return "\n".join(f"| {' | '.join(line)} |" for line in [cells[0], rule, *cells[1:]])


def _linked(text: str, links: Mapping[str, str]) -> str:
    escaped = html.escape(text)
    return f'<a href="{html.escape(links[text])}">{escaped}</a>' if text in links else escaped


@dataclass(frozen=True)
class Drawing:
    """One figure or table of the report, with its title and caption."""

    name: str
    """Stem of the drawing's files."""
    title: str
    caption: str = ""
    run_ids: Sequence[str] = field(default_factory=tuple)
    figure: Figure | None = None
    table: Table | None = None
    missing: str = ""
    """Reason why there is nothing to see; "" if there is something."""

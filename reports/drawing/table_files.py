"""Tables as files: CSV for programs, Markdown for issues, LaTeX (booktabs) for papers."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from reports.drawing.figure import Table

FOLDER = "tables"
FORMATS = ("csv", "md", "tex")

_NUMBER = r"[+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?"
_PLAIN = re.compile(rf"({_NUMBER})×?")
_WITH_HALF_WIDTH = re.compile(rf"({_NUMBER}) ±({_NUMBER})")
_MATHS = {
    "±": r"$\pm$", "×": r"$\times$", "→": r"$\rightarrow$", "≤": r"$\leq$", "≥": r"$\geq$",
    "−": "$-$", "∞": r"$\infty$", "ρ": r"$\rho$", "λ": r"$\lambda$", "µ": r"$\mu$", "·": r"$\cdot$",
    "†": r"$\dagger$", "…": r"\ldots{}",
}  # fmt: skip
"""LaTeX commands for letters, so that a table needs no package except booktabs."""


def save(folder: Path, name: str, table: Table) -> list[Path]:
    """Write a table in every format and return the files, in the order of ``FORMATS``.

    Args:
        folder: folder of the files; it is made if it does not exist.
        name: stem of the files.
        table: table to write.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for form, text in zip(
        FORMATS, (csv(table), table.to_markdown() + "\n", latex(table)), strict=True
    ):
        files.append(folder / f"{name}.{form}")
        files[-1].write_text(text, encoding="utf-8")
    return files


def csv(table: Table) -> str:
    """Return a table as CSV, with numbers that programs can read.

    Numbers have no marks of thousands or multiples. The number after a ± has its own column.
    """
    columns: list[tuple[str, list[str]]] = []
    for at, heading in enumerate(table.header):
        cells = [row[at] for row in table.rows]
        pairs = [_WITH_HALF_WIDTH.fullmatch(cell) for cell in cells]
        columns.append(
            (
                heading,
                [_bare(pair[1] if pair else cell) for pair, cell in zip(pairs, cells, strict=True)],
            )
        )
        if any(pairs):
            columns.append((f"{heading}, ±", [_bare(pair[2]) if pair else "" for pair in pairs]))
    frame = pd.DataFrame(dict(enumerate(cells for _, cells in columns)), dtype=str)
    return frame.to_csv(
        index=False, header=[heading for heading, _ in columns], lineterminator="\n"
    )


def _bare(cell: str) -> str:
    number = _PLAIN.fullmatch(cell)
    return number[1].replace(",", "") if number else cell


def latex(table: Table) -> str:
    """Return a ``tabular`` with the rules of booktabs, words to the left, numbers to the right."""
    frame = pd.DataFrame([list(row) for row in table.rows], columns=pd.Index(list(table.header)))
    sides = "".join("l" if at == 0 or table.is_text(at) else "r" for at in range(len(table.header)))
    text: str = frame.to_latex(index=False, escape=True, column_format=sides)
    for letter, command in _MATHS.items():
        text = text.replace(letter, command)
    return "% needs \\usepackage{booktabs}\n" + text

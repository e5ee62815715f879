"""Table of claims with their verdicts, for files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.claims import wording
from reports.claims.verdicts import ClaimVerdict, CriterionVerdict
from reports.drawing.figure import Table

HEADER = (
    "entry", "where", "claim", "verdict", "criterion", "cell", "measured", "interval", "trials",
    "paper", "compared with the paper's", "fidelity",
)  # fmt: skip


def claim_table(verdicts: Sequence[ClaimVerdict]) -> Table:
    """Return a table with a row for every cell of every criterion.

    A criterion without cells and an entry without criteria have one row each.
    """
    rows = []
    for verdict in verdicts:
        claim = verdict.claim
        first = [claim.id, claim.where, claim.shows]
        cells = [row for each in verdict.criteria for row in _cells(each)]
        empty = [wording.word(verdict).text, *[""] * (len(HEADER) - 4)]
        rows += [[*first, *row] for row in cells or [empty]]
    return Table(HEADER, rows)


def _cells(verdict: CriterionVerdict) -> Iterator[list[str]]:
    criterion = verdict.criterion
    rule = wording.rule(criterion)
    if not verdict.cells:
        yield [wording.AWAITED.text, rule, *[""] * (len(HEADER) - 5)]
    stated = "" if criterion.stated is None else wording.number(criterion.stated, criterion.measure)
    fidelity = verdict.fidelity.value if verdict.fidelity else ""
    for cell in verdict.cells:
        shown = wording.cell(criterion, cell)
        yield [
            shown["word"].text, rule, shown["name"], shown["value"], shown["interval"],
            shown["trials"], stated, shown["magnitude"], fidelity,
        ]  # fmt: skip

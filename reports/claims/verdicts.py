"""Pure functions from numbers to a verdict: direction, magnitude and fidelity.

The confidence of every interval is corrected (Bonferroni), so that all tested claims of a paper
together are wrong in at most one of twenty cases. A deterministic replay of one input has no
spread: its verdict concerns that input only, and says so.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from scipy.special import stdtrit

from harness.metrics.statistics import CONFIDENCE
from reports.claims.fixed import Fixed, when_fixed
from reports.claims.ledger import Claim, Criterion, Paper
from reports.claims.measures import Cell, MeasureError, Sample, samples
from reports.runs import parallel as processes
from reports.runs.selection import ReportRun


class Direction(StrEnum):
    """Result for the relation that a claim asserts."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "not distinguishable"
    ONE_TRIAL = "one trial"
    """Result of a single trial, whose spread is unknown."""


class Magnitude(StrEnum):
    """Measured effect compared with the paper's number."""

    EQUIVALENT = "equivalent"
    STRONGER = "stronger"
    WEAKER = "weaker"
    UNDECIDED = "not distinguishable"


class Fidelity(StrEnum):
    """Similarity of the measurement to the source's experiment, most similar first."""

    LIVE = "real training, other hardware"
    EMULATED = "real training, emulated pace"
    MEASURED = "simulated from curves measured here"
    PUBLISHED = "simulated from published or modelled curves"


class Status(StrEnum):
    """State of an entry on its way to a verdict."""

    TESTED = "tested"
    CHECKED = "checked by tests"
    GIVEN = "an input here"
    AWAITED = "records awaited"
    OPEN = "no study yet"
    NOT_HERE = "not testable here"


def worst(directions: Iterable[Direction | None]) -> Direction | None:
    """Return the worst direction, because a claim must hold in every part; None without
    directions."""
    found = set(directions)
    order = (Direction.FAILS, Direction.UNDECIDED, Direction.ONE_TRIAL, Direction.HOLDS)
    return next((each for each in order if each in found), None)


@dataclass(frozen=True)
class CellVerdict:
    """Verdict on one cell of a criterion."""

    cell: Cell
    value: float
    """Mean over trials; the geometric mean for ratios and for values that are all above 0."""
    low: float
    high: float
    """Upper end of the interval from ``low``; both ends are the value itself if there is only one
    deterministic replay."""
    num_trials: int
    direction: Direction
    magnitude: Magnitude | None
    """None if the paper states no number."""


@dataclass(frozen=True)
class CriterionVerdict:
    """Verdict of a study's records on one criterion."""

    name: str
    criterion: Criterion
    cells: tuple[CellVerdict, ...]
    fidelity: Fidelity | None
    run_ids: tuple[str, ...]
    records_digest: str
    fixed: Fixed
    """Evidence from manifests of whether the criterion existed before the records."""
    problem: str = ""
    """Reason why the records could not be judged; "" if they could."""

    @property
    def direction(self) -> Direction | None:
        """Worst direction of the cells, since the claim must hold in each; None without records."""
        return worst(cell.direction for cell in self.cells)

    @property
    def magnitudes(self) -> tuple[Magnitude, ...]:
        """Different verdicts on magnitude among the cells of the claim."""
        return tuple(dict.fromkeys(c.magnitude for c in self.cells if c.magnitude is not None))


@dataclass(frozen=True)
class ClaimVerdict:
    """Verdict on one entry of the ledger."""

    claim: Claim
    criteria: tuple[CriterionVerdict, ...]
    ablations: tuple[CriterionVerdict, ...] = ()
    """Verdicts on ablations, which explain the entry's verdict but do not decide it."""

    @property
    def status(self) -> Status:
        """Status of the entry: how it is decided, or why it is open."""
        if self.claim.checked_by:
            return Status.GIVEN if self.claim.given else Status.CHECKED
        if self.claim.not_here:
            return Status.NOT_HERE
        if not self.claim.criteria:
            return Status.OPEN
        judged = all(each.direction is not None for each in self.criteria)
        return Status.TESTED if judged else Status.AWAITED

    @property
    def direction(self) -> Direction | None:
        """Worst direction of the criteria once all have records, else None."""
        if self.status is not Status.TESTED:
            return None
        return worst(each.direction for each in self.criteria)

    def stored(self) -> dict[str, object]:
        """Return the verdict's words and digests of their sources, kept to notice a change."""
        return {
            "status": self.status.value,
            "direction": self.direction.value if self.direction else None,
            "criteria": {
                each.name: {
                    "direction": each.direction.value if each.direction else None,
                    "magnitude": [magnitude.value for magnitude in each.magnitudes],
                    "fidelity": each.fidelity.value if each.fidelity else None,
                    "criterion": each.criterion.digest,
                    "records": each.records_digest,
                }
                for each in self.criteria
            },
        }


def judge(
    papers: Sequence[Paper], studies: Mapping[str, Sequence[ReportRun]]
) -> list[ClaimVerdict]:
    """Return a verdict for every entry, in the order of the ledger.

    Args:
        papers: the ledger.
        studies: runs by the study that made them.
    """

    def verdict(entry: tuple[Paper, Claim]) -> ClaimVerdict:
        paper, claim = entry
        return ClaimVerdict(
            claim,
            tuple(
                judge_one(name, each, studies.get(each.study, ()), paper.num_tested)
                for name, each in claim.names().items()
            ),
            tuple(
                judge_one(f"{claim.id}/ablation", each, studies.get(each.study, ()), 1)
                for each in claim.ablations
            ),
        )

    entries = [(paper, claim) for paper in papers for claim in paper.claims]
    return processes.each(verdict, entries)


def judge_one(
    name: str, criterion: Criterion, runs: Sequence[ReportRun], num_claims: int
) -> CriterionVerdict:
    """Return the verdict on one criterion.

    Args:
        name: name of the criterion in manifests.
        criterion: criterion to judge.
        runs: runs of the criterion's study.
        num_claims: tested claims of the paper, over which the interval is corrected.
    """
    try:
        found = samples(criterion, runs)
        problem = ""
    except MeasureError as error:
        found, problem = [], str(error)
    used = sorted({run_id for sample in found for run_id in sample.run_ids})
    by_id = {run.run_id: run for run in runs}
    members = [by_id[run_id] for run_id in used]
    exact = bool(members) and not any(run.is_live for run in members)
    confidence = 1.0 - (1.0 - CONFIDENCE) / max(num_claims, 1)
    cells: dict[Cell, list[Sample]] = {}
    for sample in found:
        cells.setdefault(sample.cell, []).append(sample)
    return CriterionVerdict(
        name=name,
        criterion=criterion,
        cells=tuple(
            _cell(criterion, cell, [sample.value for sample in own], confidence, is_exact=exact)
            for cell, own in sorted(cells.items())
        ),
        fidelity=max(map(_fidelity, members), key=list(Fidelity).index) if members else None,
        run_ids=tuple(used),
        records_digest=_digest(members),
        fixed=when_fixed(name, criterion, members),
        problem=problem,
    )


def _cell(
    criterion: Criterion, cell: Cell, values: Sequence[float], confidence: float, *, is_exact: bool
) -> CellVerdict:
    is_positive = criterion.measure in ("ratio", "value") and min(values) > 0
    low, value, high = interval(
        values, confidence, in_logarithms=is_positive, is_exact=is_exact or criterion.is_fact
    )
    found = direction(criterion.holds_if, low, high)
    if len(values) == 1 and found is Direction.UNDECIDED:
        found = Direction.ONE_TRIAL
    return CellVerdict(cell, value, low, high, len(values), found, magnitude(criterion, low, high))


def interval(
    values: Sequence[float], confidence: float, *, in_logarithms: bool, is_exact: bool
) -> tuple[float, float, float]:
    """Return the low end, the mean and the high end of an interval by Student's t.

    One measured trial gives an interval without bounds. Equal values of deterministic replays need
    no interval, so both ends are the value.

    Args:
        values: one value for each trial, at least one.
        confidence: confidence of the interval.
        in_logarithms: True for ratios and values above 0, so that the interval is above 0 too.
        is_exact: True if the values come from deterministic replays alone, or are facts.
    """
    if is_exact and len(set(values)) == 1:  # logarithms would change the last bit
        return (values[0], values[0], values[0])
    scaled = [math.log(value) for value in values] if in_logarithms else list(values)
    mean = fmean(scaled)
    if len(scaled) > 1:
        half = float(stdtrit(len(scaled) - 1, 0.5 + confidence / 2)) * stdev(scaled)
        half /= math.sqrt(len(scaled))
    else:
        half = math.inf
    ends = (mean - half, mean, mean + half)
    if not in_logarithms:
        return ends
    return (math.exp(ends[0]), math.exp(mean), math.exp(ends[2]))


def direction(holds_if: Mapping[str, object], low: float, high: float) -> Direction:
    """Return the direction that follows from an interval and the bound of a criterion."""
    ((kind, bound),) = holds_if.items()
    if kind == "within":
        least, most = (float(end) for end in bound)  # type: ignore[attr-defined]
    else:
        edge = float(bound)  # type: ignore[arg-type]
        least, most = (edge, math.inf) if kind == "above" else (-math.inf, edge)
    if least <= low and high <= most:
        return Direction.HOLDS
    if high < least or low > most:
        return Direction.FAILS
    return Direction.UNDECIDED


def magnitude(criterion: Criterion, low: float, high: float) -> Magnitude | None:
    """Return the magnitude that follows from an interval and the paper's number.

    A number that is further from the bound is stronger. The result is None if the paper states no
    number.
    """
    stated, margin = criterion.stated, criterion.margin
    if stated is None or margin is None:
        return None
    if criterion.measure == "ratio":
        least, most = stated / margin, stated * margin
    else:
        least, most = stated - margin, stated + margin
    if least <= low and high <= most:
        return Magnitude.EQUIVALENT
    if high < least or low > most:
        is_more = low > most
        return (
            Magnitude.STRONGER if is_more != ("below" in criterion.holds_if) else Magnitude.WEAKER
        )
    return Magnitude.UNDECIDED


def _fidelity(run: ReportRun) -> Fidelity:
    if run.is_live:
        return Fidelity.EMULATED if run.is_emulated else Fidelity.LIVE
    return Fidelity.MEASURED if run.profile_measured_here else Fidelity.PUBLISHED


def _digest(runs: Sequence[ReportRun]) -> str:
    """Return a digest of the runs' records: all tables, also left-out tables, and all numbers.

    The machine and the date are not part of it. The result is "" without runs.
    """
    parts = {
        run.run_id: [dict(part) for part in (run.stored.digests, run.stored.facts, run.metrics)]
        for run in runs
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest() if runs else ""

"""Ledger of claims: the statements of each paper, and the criteria that test them.

An entry is decided in one of three ways. ``criteria`` judge the records of a study; ``checked_by``
names tests of the suite, for illustrations, worked examples and algorithms; ``not_here`` says why
it cannot be tested on such a machine. An entry with none of them is open. Tests may compare an
input of the simulations with a paper's statement. ``given`` then names that input, because it is
not a finding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from harness.configuration.compose import option_files
from harness.configuration.fast_yaml import read_yaml
from harness.errors import Problem, UserError, suggest
from harness.results.criteria import LEDGER, digest, name
from reports.claims.group_numbers import GROUP_NUMBERS

ROOT = LEDGER.parents[1]
PAPERS = ("edl", "saxena", "easyscale", "elasticflow", "hu")
"""Papers in the order of the report; each has a file in the ledger."""

_MEASURES = ("ratio", "difference", "value", "trend", "group")
_BOUNDS = ("above", "below", "within")


@dataclass(frozen=True)
class Criterion:
    """A rule by which the records of a study decide a claim."""

    study: str
    measure: Literal["ratio", "difference", "value", "trend", "group"]
    """Number to judge: one system's metric over another's (ratio), minus another's (difference), or
    alone (value); its slope along a key (trend); or a number computed from all runs of a trial
    (group)."""
    metric: str
    """Metric of the runs, or a number of ``numbers.py`` (for a group: of ``group_numbers.py``)."""
    of: Mapping[str, str]
    """Options that select the runs: chosen options, or keys of the configuration."""
    holds_if: Mapping[str, Any]
    """Bound on the number: ``above: x``, ``below: x`` or ``within: [low, high]``."""
    over: Mapping[str, str] | None = None
    """Options that select the runs to compare with."""
    beside: Mapping[str, Mapping[str, str]] | None = None
    """For a ratio: ``of`` and ``over`` of another ratio, by which it is divided, trial by trial."""
    along: str | None = None
    """For a trend: the key of the configuration that gives the x value of a point."""
    each: tuple[str, ...] = ()
    """Keys whose values name cells; the claim must hold in every cell."""
    what: str = ""
    """Name of the part of a claim that the criterion tests, for a claim with several criteria."""
    stated: float | None = None
    """The paper's number for the same measure."""
    margin: float | None = None
    """Tolerance within which a result is equivalent: a factor for a ratio, else a difference."""
    scale: str = ""
    """The paper's scale and ours, in one line."""
    is_fact: bool = False
    """True if the number is a fact of a run, without spread: one contrary run prevents "holds"."""
    source: Mapping[str, Any] | None = None
    """The criterion as the ledger's file has it."""

    @property
    def digest(self) -> str:
        """Digest of the criterion, as manifests keep it."""
        assert self.source is not None
        return digest(self.source)


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, as an entry of the ledger of claims."""

    id: str
    paper: str
    where: str
    """Section, figure or table of the paper."""
    kind: str
    shows: str
    metric: str
    relation: str
    """Relation that a replication has to show."""
    setup: Mapping[str, Any]
    stated: Sequence[Mapping[str, Any]]
    """Numbers printed in the paper: ``quantity``, ``value`` and, if there is one, ``unit``."""
    needs: Mapping[str, str]
    """For each kind of experiment, whether it could test the entry: the source's hardware, a CPU
    machine, one GPU, a simulation."""
    note: str = ""
    criteria: tuple[Criterion, ...] = ()
    checked_by: tuple[str, ...] = ()
    """Tests of the suite, as pytest names them."""
    given: str = ""
    """Part of the entry that is an input of our simulations; tests check that the input is the
    same."""
    analysis: str = ""
    """Explanation of the result, if the entry fails."""
    ablations: tuple[Criterion, ...] = ()
    """Criteria of the same form that support the explanation; they do not decide the claim."""
    not_here: str = ""
    """Requirements of a test, for an entry that cannot be tested here."""

    def names(self) -> dict[str, Criterion]:
        """Return the criteria by the names that manifests use."""
        return {name(self.id, number): each for number, each in enumerate(self.criteria, 1)}


@dataclass(frozen=True)
class Paper:
    """A paper and its entries, in the paper's order."""

    id: str
    title: str
    authors: str
    short: str
    """Name of the paper in the report."""
    claims: tuple[Claim, ...]

    @property
    def num_tested(self) -> int:
        """Number of entries that records decide; intervals are corrected for that many tests."""
        return sum(bool(claim.criteria) for claim in self.claims)


def load(folder: Path = LEDGER) -> list[Paper]:
    """Return every paper of the ledger.

    Raises:
        UserError: the files have mistakes; it lists all of them, each with its place.
    """
    problems: list[Problem | str] = []
    papers = []
    for paper in PAPERS:
        path = folder / f"{paper}.yaml"
        document = read_yaml(path.read_text(encoding="utf-8"))
        read = [_claim(path.name, paper, entry, problems) for entry in document["claims"]]
        claims = [claim for claim in read if claim is not None]
        ids = [claim.id for claim in claims]
        for twice in sorted({each for each in ids if ids.count(each) > 1}):
            problems.append(Problem(f"{path.name}: {twice}", "occurs twice", "rename one"))
        known = {key: document[key] for key in ("title", "authors", "short")}
        papers.append(Paper(paper, claims=tuple(claims), **known))
    if problems:
        raise UserError(problems)
    return papers


def _claim(file: str, paper: str, entry: Any, problems: list[Problem | str]) -> Claim | None:
    place = f"{file}: {entry.get('id', '?')}"
    sources = entry.get("criteria", ())
    values = {
        **entry,
        "paper": paper,
        "criteria": _criteria(place, sources, problems),
        "ablations": _criteria(f"{place}/ablation", entry.get("ablations", ()), problems),
        "checked_by": tuple(entry.get("checked_by", ())),
    }
    if not _fits(Claim, values, place, problems):
        return None
    claim = Claim(**values)
    if sum([bool(sources), bool(claim.checked_by), bool(claim.not_here)]) > 1:
        fact = "is decided in several ways"
        problems.append(Problem(place, fact, "keep one of criteria, checked_by and not_here"))
    if not re.fullmatch(rf"{paper}-[a-z0-9-]+", claim.id):
        problems.append(Problem(place, "is no id", f"begin it with {paper}-"))
    if claim.ablations and not claim.analysis:
        problems.append(Problem(f"{place}.analysis", "is missing", "state what the ablations show"))
    if claim.given and not claim.checked_by:
        problems.append(Problem(f"{place}.given", "needs checked_by", "name the tests"))
    for node in claim.checked_by:
        problems += _node_problems(place, node)
    return claim


def _criteria(
    place: str, sources: Sequence[Any], problems: list[Problem | str]
) -> tuple[Criterion, ...]:
    numbered = enumerate(sources, 1)
    found = [_criterion(f"{place}/{number}", source, problems) for number, source in numbered]
    return tuple(each for each in found if each is not None)


def _criterion(place: str, source: Any, problems: list[Problem | str]) -> Criterion | None:
    values = {**source, "each": tuple(source.get("each", ())), "source": source}
    for key in ("of", "over"):
        if values.get(key) is not None:
            values[key] = {name: str(value) for name, value in values[key].items()}
    if values.get("beside") is not None:
        values["beside"] = {
            side: {key: str(value) for key, value in options.items()}
            for side, options in values["beside"].items()
        }
    if not _fits(Criterion, values, place, problems):
        return None
    found = Criterion(**values)
    if found.beside is not None and (found.measure != "ratio" or {*found.beside} != {"of", "over"}):
        problems.append(Problem(f"{place}.beside", "is only for ratios, with of and over"))
    studies = option_files("study")
    if found.study not in studies:
        fact = f"there is no study {found.study}"
        problems.append(Problem(place, fact, suggest(found.study, studies)))
    if found.measure not in _MEASURES:
        fact = f"measure is {found.measure}"
        problems.append(Problem(place, fact, suggest(found.measure, _MEASURES)))
    if len(found.holds_if) != 1 or not set(found.holds_if) <= set(_BOUNDS):
        bounds = ", ".join(_BOUNDS)
        problems.append(Problem(f"{place}.holds_if", "is no bound", f"give one of {bounds}"))
    if (found.over is not None) != (found.measure in ("ratio", "difference")):
        problems.append(
            Problem(f"{place}.over", "is required for ratios and differences, and only for these")
        )
    if found.measure == "group" and found.metric not in GROUP_NUMBERS:
        fact = f"{found.metric} is no number of groups"
        problems.append(Problem(f"{place}.metric", fact, suggest(found.metric, GROUP_NUMBERS)))
    if (found.along is not None) != (found.measure == "trend"):
        problems.append(Problem(f"{place}.along", "is required for trends, and only for these"))
    if (found.stated is None) != (found.margin is None):
        problems.append(Problem(f"{place}.stated", "needs margin", "give both or none"))
    return found


def _fits(kind: type, values: Mapping[str, Any], place: str, problems: list[Problem | str]) -> bool:
    """Check that an entry has the keys that it needs and no unknown key; append problems."""
    parts = fields(kind)
    names = {part.name for part in parts}
    lacking = {p.name for p in parts if p.default is MISSING} - set(values)
    problems += [Problem(f"{place}.{key}", "is missing") for key in sorted(lacking)]
    for key in sorted(set(values) - names):
        problems.append(Problem(f"{place}.{key}", "is no key", suggest(key, names)))
    return not lacking and set(values) <= names


def _node_problems(place: str, node: str) -> list[Problem | str]:
    """Return a problem if the suite has no such test, for example because it was renamed.

    An installed package has no suite, so there is nothing to look in.
    """
    if not (ROOT / "pyproject.toml").is_file():
        return []
    file, _, function = node.partition("::")
    path = ROOT / file
    if path.is_file() and (not function or f"def {function}(" in path.read_text(encoding="utf-8")):
        return []
    return [Problem(place, f"there is no test {node}", "correct its name")]

"""The ledger of claims: what each paper states, and what would show it.

An entry is decided in one of three ways. ``criteria`` judge the records of a study;
``checked_by`` names tests of the suite, for illustrations, worked examples and algorithms;
``not_here`` says why a machine like this cannot decide it. An entry with none of them is open.
Where tests hold what simulations are given to what a paper states, ``given`` says so: that is an
input, and no finding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from harness.criteria import LEDGER, digest, name
from harness.problems import Problem, UserError, suggest
from harness.yaml_text import read_yaml
from reports.claims.group_numbers import GROUP_NUMBERS
from reports.selection import STUDIES

ROOT = LEDGER.parents[1]
PAPERS = ("edl", "saxena", "easyscale", "elasticflow", "hu")
"""In the order of the report; each is a file of the ledger."""

_MEASURES = ("ratio", "difference", "value", "trend", "group")
_BOUNDS = ("above", "below", "within")


@dataclass(frozen=True)
class Criterion:
    """A criterion: what of a study's records decides a claim, and how."""

    study: str
    measure: Literal["ratio", "difference", "value", "trend", "group"]
    """Of one system's metric over another's; less it; of one alone; its slope along a key; of all
    runs of a trial at once."""
    metric: str
    """A metric of the runs, or one of ``numbers.py``; of a group, one of ``group_numbers.py``."""
    of: Mapping[str, str]
    """Options of the runs meant: chosen options, or keys of the configuration."""
    holds_if: Mapping[str, Any]
    """One of ``above: x``, ``below: x``, ``within: [low, high]``."""
    over: Mapping[str, str] | None = None
    """Options of the runs compared with."""
    beside: Mapping[str, Mapping[str, str]] | None = None
    """Of a ratio: ``of`` and ``over`` of another ratio, by which it is divided, trial by trial."""
    along: str | None = None
    """Of a trend: the key of the configuration that numbers its points."""
    each: tuple[str, ...] = ()
    """Keys that name cells: the claim is to hold in every one."""
    what: str = ""
    """What it shows, where a claim has several."""
    stated: float | None = None
    """The paper's number for the same measure."""
    margin: float | None = None
    """How near is equivalent: a factor for a ratio, else a difference."""
    scale: str = ""
    """The paper's scale and ours, in one line."""
    is_fact: bool = False
    """True of a run or not, without spread: one run that says no is enough."""
    source: Mapping[str, Any] | None = None
    """The criterion as the file has it."""

    @property
    def digest(self) -> str:
        """Digest of the criterion, as manifests keep it."""
        assert self.source is not None
        return digest(self.source)


@dataclass(frozen=True)
class Claim:
    """An entry of the ledger."""

    id: str
    paper: str
    where: str
    """Section, figure or table."""
    kind: str
    shows: str
    metric: str
    relation: str
    """What a replication must show."""
    setup: Mapping[str, Any]
    stated: Sequence[Mapping[str, Any]]
    """Numbers printed in the paper: ``quantity``, ``value`` and, where it has one, ``unit``."""
    needs: Mapping[str, str]
    """What would test it: the source's hardware, a CPU machine, one GPU, a simulation."""
    note: str = ""
    criteria: tuple[Criterion, ...] = ()
    checked_by: tuple[str, ...] = ()
    """Tests of the suite, as pytest names them."""
    given: str = ""
    """What of it is an input of our simulations, so that the tests cannot but pass on it."""
    analysis: str = ""
    """Why it comes out as it does, where it fails."""
    ablations: tuple[Criterion, ...] = ()
    """What shows that this is why: criteria of the same form, which do not decide the claim."""
    not_here: str = ""
    """What testing it would need, where it cannot be tested here."""

    def names(self) -> dict[str, Criterion]:
        """Its criteria under the names that manifests have for them."""
        return {name(self.id, number): each for number, each in enumerate(self.criteria, 1)}


@dataclass(frozen=True)
class Paper:
    """A paper and its entries, in the paper's order."""

    id: str
    title: str
    authors: str
    short: str
    """What the report calls it."""
    claims: tuple[Claim, ...]

    @property
    def num_tested(self) -> int:
        """Entries that records decide: the family over which intervals are corrected."""
        return sum(bool(claim.criteria) for claim in self.claims)


def load(folder: Path = LEDGER) -> list[Paper]:
    """Every paper of the ledger.

    Raises:
        UserError: all that is wrong with its files, each with its place.
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
            problems.append(Problem(f"{path.name}: {twice}", "is there twice", "rename one"))
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
        problems.append(Problem(f"{place}.analysis", "is missing", "say what the ablations show"))
    if claim.given and not claim.checked_by:
        problems.append(Problem(f"{place}.given", "goes with checked_by", "name the tests"))
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
        problems.append(Problem(f"{place}.beside", "is a ratio's alone, with of and over"))
    if not (STUDIES / f"{found.study}.yaml").is_file():
        studies = sorted(path.stem for path in STUDIES.glob("*.yaml"))
        fact = f"there is no study {found.study}"
        problems.append(Problem(place, fact, suggest(found.study, studies)))
    if found.measure not in _MEASURES:
        fact = f"measure is {found.measure}"
        problems.append(Problem(place, fact, suggest(found.measure, _MEASURES)))
    if len(found.holds_if) != 1 or not set(found.holds_if) <= set(_BOUNDS):
        bounds = ", ".join(_BOUNDS)
        problems.append(Problem(f"{place}.holds_if", "is no bound", f"give one of {bounds}"))
    if (found.over is not None) != (found.measure in ("ratio", "difference")):
        problems.append(Problem(f"{place}.over", "is what ratios and differences have, alone"))
    if found.measure == "group" and found.metric not in GROUP_NUMBERS:
        fact = f"{found.metric} is no number of a group"
        problems.append(Problem(f"{place}.metric", fact, suggest(found.metric, GROUP_NUMBERS)))
    if (found.along is not None) != (found.measure == "trend"):
        problems.append(Problem(f"{place}.along", "is what trends have, alone"))
    if (found.stated is None) != (found.margin is None):
        problems.append(Problem(f"{place}.stated", "goes with margin", "give both or none"))
    return found


def _fits(kind: type, values: Mapping[str, Any], place: str, problems: list[Problem | str]) -> bool:
    """Whether an entry has the keys that it needs, and no other."""
    parts = fields(kind)
    names = {part.name for part in parts}
    lacking = {p.name for p in parts if p.default is MISSING} - set(values)
    problems += [Problem(f"{place}.{key}", "is missing") for key in sorted(lacking)]
    for key in sorted(set(values) - names):
        problems.append(Problem(f"{place}.{key}", "is no key", suggest(key, names)))
    return not lacking and set(values) <= names


def _node_problems(place: str, node: str) -> list[Problem | str]:
    """Whether the suite has the test: an entry must not rest on one that was renamed."""
    file, _, function = node.partition("::")
    path = ROOT / file
    if path.is_file() and (not function or f"def {function}(" in path.read_text(encoding="utf-8")):
        return []
    return [Problem(place, f"there is no test {node}", "correct its name")]

"""What a page of the report is that belongs to no paper and no study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.bounded_file import parse_json, read_text
from harness.store import StoreError
from reports.claims.ledger import Paper
from reports.claims.verdicts import Verdict
from reports.drawing import Table
from reports.selection import ReportRun, name

_PLANS = "hu_plans/record.json"
_BESIDE_TORCHFT = "torchft/*.json"


@dataclass(frozen=True)
class Drawn:
    """A figure or table that stands on the page of a study."""

    study: str
    figure: str
    """Name of its module."""
    name: str
    """Stem of its files, and the anchor on the study's page."""
    title: str
    has_picture: bool
    table: Table | None


@dataclass(frozen=True)
class Material:
    """Everything a page can be made of."""

    papers: Sequence[Paper]
    verdicts: Sequence[Verdict]
    studies: Mapping[str, Sequence[ReportRun]]
    """Runs by study."""
    drawn: Sequence[Drawn]
    """What the studies' pages show."""
    overhead: Mapping[str, Mapping[str, Any]]
    """Records of ``python -m harness.overhead``, by machine and file: they are no runs."""
    plans: Mapping[str, Mapping[str, Any]]
    """Records of ``python -m systems.schedulers.hu``, by the folder of their machine."""
    machines: Sequence[tuple[str, Mapping[str, Any]]]
    """What records that are no runs say of the machine: their study, and the record."""
    study_page: str = "studies/{}/index.html"
    """Where a study's page is, with ``{}`` for its name."""

    def links(self) -> dict[str, str]:
        """Pages of the studies, by name."""
        return {study: self.study_page.format(study) for study in self.studies}


@dataclass(frozen=True)
class Section:
    """A heading, what there is to say, numbers."""

    name: str
    """Its anchor, and the stem of its table's files."""
    title: str
    text: str
    table: Table | None = None
    pictures: Sequence[Drawn] = ()
    """Figures of studies that it shows again."""
    missing: str = ""
    """Why there is nothing to see, where there is nothing."""
    is_prose: bool = False
    """Its table has sentences: on a phone its cells stand below one another."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Where names in the first column lead."""


@dataclass(frozen=True)
class Page:
    """A page on one question, over all studies."""

    name: str
    """Stem of its file."""
    short: str
    """Its name in the list of pages."""
    title: str
    lead: str
    sections: Sequence[Section]

    @property
    def file(self) -> str:
        """Its file."""
        return f"{self.name}.html"


def named_anew(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """Runs of one study under the names that its own page uses."""
    return name(run.stored for run in runs)


def overhead_records(directories: Sequence[Path]) -> dict[str, Mapping[str, Any]]:
    """The records of ``python -m harness.overhead`` at or below folders of results, by the folder
    that theirs lies in, which is the machine's, and file.

    Raises:
        StoreError: one is damaged.
    """
    found = _documents(directories, "bench_overhead/*.json")
    return {f"{path.parents[1].name}/{path.stem}": record for path, record in found}


def plan_records(directories: Sequence[Path]) -> dict[str, Mapping[str, Any]]:
    """The records of ``python -m systems.schedulers.hu`` at or below folders of results, by the
    folder that theirs lies in, which is the machine's.

    Raises:
        StoreError: one is damaged.
    """
    found = _documents(directories, _PLANS)
    return {path.parents[1].name: record for path, record in found if "rows" in record}


def machines(directories: Sequence[Path]) -> list[tuple[str, Mapping[str, Any]]]:
    """What records that are no runs say of their machine: the name of their folder, and it.

    Raises:
        StoreError: one is damaged.
    """
    found = [
        *_documents(directories, "bench_overhead/*.json"),
        *_documents(directories, _PLANS),
        *_documents(directories, _BESIDE_TORCHFT),
        *_documents(directories, "*/machine.json"),
    ]
    return [(path.parent.name, record) for path, record in found if "hardware" in record]


def _documents(
    directories: Sequence[Path], pattern: str
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for path in sorted(path for directory in directories for path in directory.rglob(pattern)):
        try:
            record = parse_json(read_text(path))
        except (OSError, ValueError) as error:
            raise StoreError(f"{path}: cannot be read ({error}); make it again") from error
        if isinstance(record, dict):
            yield path, record

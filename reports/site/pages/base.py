"""Structure and data of the report's pages on questions over all studies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.files.bounded_file import parse_json, read_text
from harness.results.store import StoreError
from reports.claims.ledger import Paper
from reports.claims.verdicts import ClaimVerdict
from reports.drawing.figure import Table
from reports.runs.selection import ReportRun, name

_PLANS = "hu_plans/record.json"
_BESIDE_TORCHFT = "torchft/*.json"


@dataclass(frozen=True)
class Drawn:
    """A figure or table on the page of a study."""

    study: str
    figure: str
    """Name of the figure's module."""
    name: str
    """Stem of the drawing's files, and its anchor on the study's page."""
    title: str
    has_picture: bool
    table: Table | None


@dataclass(frozen=True)
class Material:
    """Data from which pages are built."""

    papers: Sequence[Paper]
    verdicts: Sequence[ClaimVerdict]
    studies: Mapping[str, Sequence[ReportRun]]
    """Runs by study."""
    drawn: Sequence[Drawn]
    """Figures and tables on the studies' pages."""
    overhead: Mapping[str, Mapping[str, Any]]
    """Records of ``python -m harness.bench.overhead``, which are not runs, by machine and file."""
    plans: Mapping[str, Mapping[str, Any]]
    """Records of ``python -m systems.schedulers.hu``, by the folder of their machine."""
    machines: Sequence[tuple[str, Mapping[str, Any]]]
    """Records that are not runs and describe their machine: the name of their study, and each
    record."""
    study_page: str = "studies/{}/index.html"
    """Path of a study's page, with ``{}`` for the study's name."""

    def links(self) -> dict[str, str]:
        """Return the paths of the studies' pages, by study."""
        return {study: self.study_page.format(study) for study in self.studies}


@dataclass(frozen=True)
class Section:
    """A part of a page: heading, text, table and pictures."""

    name: str
    """Anchor of the section, and stem of its table's files."""
    title: str
    text: str
    table: Table | None = None
    pictures: Sequence[Drawn] = ()
    """Figures of studies that the section shows again."""
    missing: str = ""
    """Reason why there is nothing to see; "" if there is something."""
    is_prose: bool = False
    """True if the table has sentences; a phone then shows its cells below each other."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Targets of links, by name in the first column."""


@dataclass(frozen=True)
class Page:
    """A page on one question, over all studies."""

    name: str
    """Stem of the page's file."""
    short: str
    """Name in the list of pages."""
    title: str
    lead: str
    sections: Sequence[Section]

    @property
    def file(self) -> str:
        """Name of the page's file."""
        return f"{self.name}.html"


def named_anew(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """Return the runs of a study with the names that they have on the study's page."""
    return name(run.stored for run in runs)


def overhead_records(directories: Sequence[Path]) -> dict[str, Mapping[str, Any]]:
    """Return the records of ``python -m harness.bench.overhead`` at or below folders of results.

    A key is the name of the machine's folder, a slash and the stem of the record's file.

    Raises:
        StoreError: a record is damaged.
    """
    found = _documents(directories, "bench_overhead/*.json")
    return {f"{path.parents[1].name}/{path.stem}": record for path, record in found}


def plan_records(directories: Sequence[Path]) -> dict[str, Mapping[str, Any]]:
    """Return the records of ``python -m systems.schedulers.hu`` at or below folders of results.

    A key is the name of the machine's folder, which contains the record's folder.

    Raises:
        StoreError: a record is damaged.
    """
    found = _documents(directories, _PLANS)
    return {path.parents[1].name: record for path, record in found if "rows" in record}


def machines(directories: Sequence[Path]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the records that are not runs and describe their machine, with their folder's name.

    Raises:
        StoreError: a record is damaged.
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

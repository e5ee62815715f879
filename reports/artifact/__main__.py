"""``python -m reports.artifact``: write what documents say of the committed records.

The command writes the tables of claims and costs in ``ARTIFACT.md``, the findings of the README,
the blocks of numbers on the answer pages (``answers.py``) and the project's picture.

In ``ARTIFACT.md`` it writes the section between the two marks. For every paper, the section lists
the studies that test its claims, with command, number of points, time, memory, disk, tolerance and
outcome.
Then it lists every claim with the study or test that decides it (``artifact_claims.py``).
Everything is derived from the ledger, the studies' files, the accepted verdicts, and the manifests
and facts of the committed runs. With ``--check`` the command writes nothing, and exits with 1 if
a page or the picture would change.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.compose import CONFIG_DIR, defaults, options
from harness.configuration.study import Study, load_study
from harness.errors import Problem, StoredDataError, UserError
from harness.files.bounded_file import read_text
from harness.files.gz_text import text_path
from harness.machine.interrupts import run_command
from harness.results.store import FACTS, MANIFEST, REFERENCE, run_paths
from harness.results.tables import read_table
from harness.smoke.checks import OF_THE_MACHINE
from reports.artifact import answers, blocks, picture
from reports.artifact import claim_rows as artifact_claims
from reports.artifact.measured import Measured
from reports.claims import kept
from reports.claims.ledger import Claim, Paper, load

PAGE = Path("ARTIFACT.md")
BEGIN = "<!-- Written by python -m reports.artifact; do not edit. -->"
END = "<!-- End of what python -m reports.artifact wrote. -->"
_COSTS = ("points (quick)", "on record", "one after another", "memory", "disk", "hardware")
_CLAIMS = ("claims", "as accepted", "tolerance")
_INTERVAL = "the interval over trials lies where the criterion says"


@dataclass(frozen=True)
class Cost:
    """Cost of the committed runs of a study."""

    num_runs: int
    wall_s: float
    memory_bytes: float
    disk_bytes: int
    machines: tuple[str, ...]


def costs(reference: Path) -> dict[str, Cost]:
    """Return the cost of each study, from manifests, facts and live runs' samples of the machine.

    A study's runs are those in the folders of its name. A point that several studies share is
    copied to each, but its manifest names only the first.
    """
    found: dict[str, list[Cost]] = {}
    seen: set[tuple[str, str]] = set()
    for path in run_paths(reference):
        point = (path.parent.name, path.name)
        if point in seen:  # from another machine; reports also show the first found
            continue
        seen.add(point)
        manifest = json.loads(read_text(text_path(path, MANIFEST)))
        facts = json.loads((path / FACTS).read_text(encoding="utf-8"))
        found.setdefault(path.parent.name, []).append(_cost(path, manifest, facts))
    return {
        study: Cost(
            num_runs=len(each),
            wall_s=sum(cost.wall_s for cost in each),
            memory_bytes=max(cost.memory_bytes for cost in each),
            disk_bytes=sum(cost.disk_bytes for cost in each),
            machines=tuple(sorted({name for cost in each for name in cost.machines})),
        )
        for study, each in found.items()
    }


def _cost(path: Path, manifest: Mapping[str, Any], facts: Mapping[str, float]) -> Cost:
    system = path / "system.csv.gz"
    samples = read_table(system, "system") if system.is_file() else []
    left_out = manifest.get("left_out") or {}
    hardware = manifest["hardware"]
    machine = f"{hardware['cores']} cores of {hardware['cpu']}"
    accelerators = ", ".join(hardware["accelerators"]) or "no accelerator"
    return Cost(
        num_runs=1,
        wall_s=facts.get("replay_wall_s", 0.0) + facts.get("reference_wall_s", 0.0),
        memory_bytes=max(
            [facts.get("peak_memory_bytes", 0.0), *(float(each.memory_bytes) for each in samples)]
        ),
        disk_bytes=sum(file.stat().st_size for file in path.iterdir()) + sum(left_out.values()),
        machines=(f"{machine}, {_giga(hardware['memory_bytes'])} GB, {accelerators}",),
    )


def section(papers: Sequence[Paper], reference: Path) -> str:
    """Return the text between the marks."""
    accepted = json.loads((reference / kept.FILE).read_text(encoding="utf-8"))
    known = costs(reference)
    machines = sorted({name for cost in known.values() for name in cost.machines})
    parts = [
        "The records were made on:\n",
        *(f"- {name}" for name in machines),
        *(line for paper in papers for line in _paper(paper, accepted, known)),
        *_others(papers, known),
    ]
    return "\n".join(parts) + "\n"


def _paper(paper: Paper, accepted: Mapping[str, Any], known: Mapping[str, Cost]) -> Iterator[str]:
    yield f"\n### {paper.short}\n"
    yield f"{paper.authors}: {paper.title}. {_words(paper, accepted)}\n"
    by_study: dict[str, dict[str, Claim]] = {}
    for claim in paper.claims:
        for criterion in claim.criteria:
            by_study.setdefault(criterion.study, {})[claim.id] = claim
    if by_study:
        yield from _head(*_CLAIMS, *_COSTS)
    for name, claims in by_study.items():
        study = load_study(name)
        yield _row(
            study,
            str(len(claims)),
            _directions(claims.values(), accepted),
            _tolerance(study, claims.values()),
            *_numbers(study, known.get(name)),
        )
    tests = sorted({node for claim in paper.claims for node in claim.checked_by})
    if tests:
        files = sorted({node.partition("::")[0] for node in tests})
        yield f"\nChecked by {len(tests)} tests in these files:\n"
        yield "```bash\npython -m pytest -q \\"
        yield " \\\n".join(f"  {file}" for file in files) + "\n```"
    yield from artifact_claims.table(paper, accepted)


def _others(papers: Sequence[Paper], known: Mapping[str, Cost]) -> Iterator[str]:
    """Yield the lines about the studies that decide no claim."""
    deciding = {each.study for paper in papers for claim in paper.claims for each in claim.criteria}
    studies = [load_study(name) for name in options("study") if name not in deciding]
    yield "\n### Studies that decide no claim of these\n"
    yield from _head(*_COSTS)
    for study in studies:
        if not study.studies:
            yield _row(study, *_numbers(study, known.get(study.name)))


def _head(*names: str) -> Iterator[str]:
    yield "| `python -m harness` | " + " | ".join(names) + " |"
    yield "|---" * (len(names) + 1) + "|"


def _row(study: Study, *cells: str) -> str:
    return f"| `study={study.name}` | " + " | ".join(cells) + " |"


def _words(paper: Paper, accepted: Mapping[str, Any]) -> str:
    """Return a sentence that counts how a paper's entries are decided."""
    tested = [claim for claim in paper.claims if claim.criteria]
    given = sum(bool(claim.given) for claim in paper.claims)
    checked = sum(bool(claim.checked_by) for claim in paper.claims) - given
    not_here = sum(bool(claim.not_here) for claim in paper.claims)
    rest = len(paper.claims) - len(tested) - checked - given - not_here
    texts = [
        f"{len(tested)} tested by studies ({_directions(tested, accepted)})" if tested else "",
        f"{checked} checked by tests" if checked else "",
        f"{given} inputs here" if given else "",
        f"{not_here} not testable here" if not_here else "",
        f"{rest} without a study yet" if rest else "",
    ]
    return f"{len(paper.claims)} entries: {', '.join(filter(None, texts))}."


def _directions(claims: Iterable[Claim], accepted: Mapping[str, Any]) -> str:
    found = Counter(artifact_claims.verdict(claim, accepted) for claim in claims)
    return ", ".join(f"{word}: {count}" for word, count in sorted(found.items()))


def _numbers(study: Study, cost: Cost | None) -> tuple[str, ...]:
    """Return the cells of ``_COSTS``; points without records are estimated from the recorded
    points."""
    points = study.points()
    asked = dict(word.split("=", 1) for word in study.quick)
    num_quick = sum(
        all(asked.get(axis, value) == value for axis, value in point.axes.items())
        for point in points
    )
    total = f"{len(points)} ({num_quick})" if study.quick else str(len(points))
    if cost is None:
        return (total, "none", *["not on record"] * 3, _hardware(study))
    share = max(1.0, len(points) / cost.num_runs)
    about = "about " if share > 1.0 else ""
    minutes = cost.wall_s * share / 60
    return (
        total,
        str(cost.num_runs),
        f"{about}{minutes:,.0f} min" if minutes >= 1 else "under 1 min",
        f"{_giga(cost.memory_bytes)} GB",
        f"{about}{_mega(cost.disk_bytes * share)} MB",
        _hardware(study),
    )


def _giga(value: float) -> str:
    return f"{value / 1e9:.3g}"


def _mega(value: float) -> str:
    return f"{value / 1e6:,.3g}"


def _hardware(study: Study) -> str:
    """Return the hardware for a study: any CPU in simulation, else the most cores of its clusters.

    A simulated study that runs one point at a time measures wall-clock times and needs a quiet CPU.
    """
    if not _is_live(study):
        return "any CPU" if study.parallel != 1 else "any CPU, kept quiet"
    paths = [CONFIG_DIR / "cluster" / f"{name}.yaml" for name in _values(study, "cluster")]
    cores = [
        int(number)
        for path in paths
        for number in re.findall(r"num_cores: (\d+)", path.read_text(encoding="utf-8"))
    ]
    if not cores:
        return "see its cluster"
    return f"{max(cores)} CPU core{'s' if max(cores) > 1 else ''}"


def _is_live(study: Study) -> bool:
    return any(value.startswith("live") for value in _values(study, "engine"))


def _values(study: Study, group: str) -> set[str]:
    """Return the options of a group that a study's points choose; the default if there are none."""
    words = [*study.base, *(word for point in study.points() for word in point.overrides)]
    chosen = {word.partition("=")[2] for word in words if word.startswith(f"{group}=")}
    return chosen or {defaults()[0][group]}


def _tolerance(study: Study, claims: Iterable[Claim]) -> str:
    """Return the condition under which a reader's own run agrees with the records."""
    if _is_live(study):
        return _INTERVAL
    criteria = [each for claim in claims for each in claim.criteria if each.study == study.name]
    if any(each.metric in OF_THE_MACHINE for each in criteria):
        return f"about the machine: {_INTERVAL}"
    return "records equal byte for byte"


def rewritten(page: str, text: str) -> str:
    """Return the page with the text between the marks replaced.

    Raises:
        UserError: the page lacks a mark.
    """
    before, found, rest = page.partition(BEGIN)
    _, also_found, after = rest.partition(END)
    if not (found and also_found):
        hint = f"put the lines {BEGIN} and {END} where the section is to be"
        raise UserError([Problem(str(PAGE), "lacks the marks of the section", hint)])
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the pages and the picture, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m reports.artifact",
        description=f"Write the tables of {PAGE}, the findings of the README, the numbers of the"
        " answer pages and the project's picture from the committed records.",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if a page or the picture would change",
    )
    chosen = parser.parse_args(arguments)
    try:
        measured = Measured(REFERENCE)
        pages = list(_pages(measured))
        drawn = _drawn_picture(measured)
    except (OSError, UserError, StoredDataError) as error:
        print(error, file=sys.stderr)
        return 2
    changed = [path for path, old, new in pages if old != new]
    if drawn is not None:
        changed.append(picture.PATH)
    if chosen.check:
        for path in changed:
            print(
                f"{path} is out of date; write it with: python -m reports.artifact", file=sys.stderr
            )
        return int(bool(changed))
    for path, _, new in pages:
        path.write_text(new, encoding="utf-8")
    if drawn is not None:
        picture.PATH.write_bytes(drawn)
    for path in [*(path for path, _, _ in pages), picture.PATH]:
        print(f"{path}: {'written' if path in changed else 'as it was'}")
    return 0


def _pages(measured: Measured) -> Iterator[tuple[Path, str, str]]:
    """Yield the path, the present and the wanted text of each page."""
    page = PAGE.read_text(encoding="utf-8")
    papers = load()
    yield PAGE, page, rewritten(page, section(papers, REFERENCE))
    texts_of = answers.blocks(measured)
    accepted = json.loads((REFERENCE / kept.FILE).read_text(encoding="utf-8"))
    texts_of[answers.README]["verdicts"] = artifact_claims.counts(papers, accepted)
    for path, texts in texts_of.items():
        page = path.read_text(encoding="utf-8")
        yield path, page, blocks.rewritten(str(path), page, texts)


def _drawn_picture(measured: Measured) -> bytes | None:
    """Return the picture of the records; None if the file has the same numbers."""
    content, text = picture.picture(measured.picture_runs)
    is_same = picture.PATH.is_file() and picture.description(picture.PATH) == text
    return None if is_same else content


if __name__ == "__main__":
    run_command(main)

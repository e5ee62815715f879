"""Texts next to a study's figures: what it compares, and the scale of the paper and of our runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.configuration.compose import option_files
from harness.configuration.fast_yaml import read_yaml
from harness.files.bounded_file import read_text
from reports.claims.ledger import Claim
from reports.runs.selection import ReportRun, SelectionError, sweep_of


def description(study: str) -> str:
    """Return the description of a study from its file; "" without a file or a description."""
    path = _file(study)
    if path is None:
        return ""
    return " ".join(str(_document(path).get("description", "")).split())


def study_figures(study: str) -> tuple[str, ...] | None:
    """Return the names of the figures that a study asks for; None if it names none.

    Raises:
        SelectionError: the entry is not a list.
    """
    path = _file(study)
    if path is None:
        return None
    figures = _document(path).get("figures")
    if figures is not None and not isinstance(figures, list):
        raise SelectionError(f"{path}: figures: is {figures!r}; give a list: [{figures}]")
    return tuple(figures) if figures else None


def _file(study: str) -> Path | None:
    """Return the file of a shipped study, or of the user's in the current folder; None without."""
    own = Path(f"{study}.yaml")
    found = option_files("study").get(study)
    return found or (own if own.name == str(own) and own.is_file() else None)


def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = read_yaml(read_text(path, follow=True))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        text = " ".join(str(error).split())
        raise SelectionError(f"{path}: cannot be read: {text}; correct the YAML file") from None
    return document if isinstance(document, Mapping) else {}


def stated_scales(claims: Iterable[Claim], study: str) -> list[str]:
    """Return the scales, the paper's and ours, of the criteria that a study decides, each once.

    Args:
        claims: entries of the ledger.
        study: name of the study.
    """
    criteria = (each for claim in claims for each in (*claim.criteria, *claim.ablations))
    return [*dict.fromkeys(each.scale for each in criteria if each.study == study and each.scale)]


def scale(runs: Sequence[ReportRun]) -> str:
    """Return the scale of runs in one line: engine, jobs, slots, and machines of live runs.

    Slots are those of the cluster; a device that jobs may share counts as one slot.
    """
    texts = []
    for kind in ("live", "live at emulated pace", "simulated"):
        own = [run for run in runs if _kind(run) == kind]
        if own:
            jobs = _count([_num_jobs(run) for run in own], "job")
            slots = _count([run.num_slots for run in own], "slot")
            text = f"{_count([len(own)], 'run')} {kind}, {jobs} on {slots}"
            texts.append(text if kind == "simulated" else f"{text}, {_trained(own)}")
    return "; ".join(texts)


def _kind(run: ReportRun) -> str:
    if not run.is_live:
        return "simulated"
    return "live at emulated pace" if run.is_emulated else "live"


def _num_jobs(run: ReportRun) -> int:
    submitted = run.metrics.get("jobs_submitted")
    return int(
        run.stored.manifest.get("trace", {}).get("num_jobs", 0) if submitted is None else submitted
    )


def _trained(runs: Sequence[ReportRun]) -> str:
    """Return a text on the workloads that were trained and the machines."""
    pools = sorted(
        {str(run.stored.manifest.get("choices", {}).get("workload", "?")) for run in runs}
    )
    machines = sorted({machine(run.stored.manifest.get("hardware", {})) for run in runs})
    return f"{' and '.join(pools)} workloads, on {' and on '.join(machines)}"


def elsewhere(runs: Sequence[ReportRun]) -> str:
    """Return a note on runs of the same points by other machines, which are not shown; "" if
    none."""
    counts = Counter(slug for run in runs for slug in run.also_on)
    if not counts:
        return ""
    listed = " and ".join(f"{_count([n], 'run')} of {slug}" for slug, n in sorted(counts.items()))
    return (
        f"Not shown: {listed}, whose points are shown from another machine; to see these runs, "
        "give --results the folder of their machine alone."
    )


def edited(runs: Sequence[ReportRun], studies: Collection[str] | None = None) -> str:
    """Return a note on runs left out because their trace or profile was edited; "" if none.

    Args:
        runs: runs that one call of ``select`` returned.
        studies: only runs of these studies are counted; None counts all.
    """
    left_out = runs[0].left_out if runs else ()
    own = [each for each in left_out if studies is None or sweep_of(each.run) in studies]
    if not own:
        return ""
    counts = Counter(each.what for each in own)
    listed = " and ".join(f"{_count([n], 'run')} on {what}" for what, n in sorted(counts.items()))
    return (
        f"Not shown: {listed}, edited since; to compare earlier with later contents, save the "
        "edited file under a new name."
    )


def machine(hardware: Mapping[str, Any]) -> str:
    """Return processor, cores and accelerators of a manifest's hardware in one line."""
    parts = [str(hardware.get("cpu", "unknown")), f"{hardware.get('cores', '?')} cores"]
    return ", ".join([*parts, *(hardware.get("accelerators") or ())])


def _count(values: Sequence[int], what: str) -> str:
    low, high = min(values), max(values)
    number = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{number} {what}{'' if high == 1 else 's'}"

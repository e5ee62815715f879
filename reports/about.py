"""What stands beside a study's figures: what it compares, at what scale the paper and we did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import yaml

from reports.claims.ledger import Claim
from reports.selection import STUDIES, ReportRun, SelectionError, sweep_of


def description(study: str) -> str:
    """What a study compares, as its file says; "" where it has none."""
    path = STUDIES / f"{study}.yaml"
    if not path.is_file():
        return ""
    document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return " ".join(str(document.get("description", "")).split())


def study_figures(study: str) -> tuple[str, ...] | None:
    """Return the names of the figures a study asks for; None: it does not say, so all.

    Raises:
        SelectionError: they are no list.
    """
    path = STUDIES / f"{study}.yaml"
    if not path.is_file():
        return None
    figures = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("figures")
    if figures is not None and not isinstance(figures, list):
        raise SelectionError(f"{path}: figures: is {figures!r}; give a list: [{figures}]")
    return tuple(figures) if figures else None


def stated_scales(claims: Iterable[Claim], study: str) -> list[str]:
    """The scales of the criteria that a study serves, the paper's and ours, each once.

    Args:
        claims: entries of the ledger.
        study: its name.
    """
    criteria = (each for claim in claims for each in (*claim.criteria, *claim.ablations))
    return [*dict.fromkeys(each.scale for each in criteria if each.study == study and each.scale)]


def scale(runs: Sequence[ReportRun]) -> str:
    """How large the runs are, in one line: how made, jobs, slots, and where they really trained.

    Slots are those of the cluster; of devices that jobs may share, one each.
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
    """Which programs, on which machines."""
    pools = sorted(
        {str(run.stored.manifest.get("choices", {}).get("workload", "?")) for run in runs}
    )
    machines = sorted({machine(run.stored.manifest.get("hardware", {})) for run in runs})
    return f"{' and '.join(pools)} workloads, on {' and on '.join(machines)}"


def elsewhere(runs: Sequence[ReportRun]) -> str:
    """Which machines trained the same points in runs that are not shown; "" if none did."""
    counts = Counter(slug for run in runs for slug in run.also_on)
    if not counts:
        return ""
    listed = " and ".join(f"{_count([n], 'run')} of {slug}" for slug, n in sorted(counts.items()))
    return (
        f"Not shown: {listed}, of points that are shown as another machine ran them;"
        " to see them, give --results the folder of that machine alone."
    )


def edited(runs: Sequence[ReportRun], studies: Collection[str] | None = None) -> str:
    """Return which runs are left out since their trace or profile was edited; "" if none.

    Args:
        runs: those of one call of ``select``.
        studies: only runs of these; None: all.
    """
    left_out = runs[0].left_out if runs else ()
    own = [each for each in left_out if studies is None or sweep_of(each.run) in studies]
    if not own:
        return ""
    counts = Counter(each.what for each in own)
    listed = " and ".join(f"{_count([n], 'run')} on {what}" for what, n in sorted(counts.items()))
    return (
        f"Not shown: {listed}, edited since; to compare earlier contents with later ones, give the"
        " edited file a name of its own."
    )


def machine(hardware: Mapping[str, Any]) -> str:
    """Processor, cores and accelerators, as a manifest has them."""
    parts = [str(hardware.get("cpu", "unknown")), f"{hardware.get('cores', '?')} cores"]
    return ", ".join([*parts, *(hardware.get("accelerators") or ())])


def _count(values: Sequence[int], what: str) -> str:
    low, high = min(values), max(values)
    number = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{number} {what}{'' if high == 1 else 's'}"

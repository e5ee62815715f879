"""Assumptions that replace records or measurements in a run; they are shown with its results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.profiles.profile import RECORDED
from harness.results.store import StoredRun

_FIELDS = {
    "deadline_s": "deadlines",
    "deadline_kind": "kinds of deadlines",
    "duration_s": "durations",
    "elastic": "which jobs can change their size",
    "events": "events",
    "global_batch": "batch sizes",
    "logical_workers": "logical workers",
    "max_slots": "largest sizes",
    "min_slots": "smallest sizes",
    "requested_slots": "requested slots",
    "arrival_s": "arrivals",
    "stated_work_ratio": "errors of stated work",
    "work_samples": "work",
    "workload": "programs",
}
"""Names of a job's fields in sentences."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """One assumption of a run."""

    name: str
    """Name for tags: ``programs``, ``devices``, ``changes`` or ``generated``."""
    text: str
    """Sentence without its full stop."""


def assumptions(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> tuple[Assumption, ...]:
    """Return the assumptions of a run, from its configuration and its manifest alone.

    They are not stored, so they can be derived for runs of any age. The manifest of an older run
    does not name the programs of its jobs. Then all programs of the profile count.

    Args:
        config: the resolved configuration of a run.
        manifest: its manifest; only ``trace`` and ``profile`` are read.
    """
    return (
        *_programs(manifest),
        *_devices(config, manifest),
        *_changes(config, manifest),
        *_generated(manifest),
    )


def of_run(run: StoredRun) -> tuple[Assumption, ...]:
    """Return the assumptions of a stored run."""
    return assumptions(run.config, run.manifest)


def lines(runs: Iterable[StoredRun]) -> list[str]:
    """Return each assumption of some runs once, with the number of runs unless all share it."""
    counts: dict[str, int] = {}
    num_runs = 0
    for run in runs:
        num_runs += 1
        for each in of_run(run):
            counts[each.text] = counts.get(each.text, 0) + 1
    return [
        text if count == num_runs else f"{text} ({count} of {num_runs} runs)"
        for text, count in counts.items()
    ]


def _jobs_by_workload(manifest: Mapping[str, Any]) -> Mapping[str, int] | None:
    """Return the number of jobs of each program; None: an older manifest without them."""
    found = _part(manifest, "trace").get("workloads")
    return found if isinstance(found, Mapping) else None


def _programs(manifest: Mapping[str, Any]) -> Iterator[Assumption]:
    jobs = _jobs_by_workload(manifest)
    if jobs is None:
        curves = _part(_part(manifest, "profile"), "curves")
        unknown, total = int(set(curves) == {RECORDED}), 1
    else:
        unknown, total = int(jobs.get(RECORDED, 0)), sum(jobs.values())
    if unknown:
        share = "" if unknown == total else f" for {unknown:,} of {total:,} jobs"
        yield Assumption(
            "programs",
            f"the trace names no program{share}: a job on w slots is assumed to be w times as "
            "fast as on 1 slot, at every size",
        )


def _devices(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[Assumption]:
    profile = _part(config, "profile")
    if _is_unpaced(config) or profile.get("devices"):
        return  # speeds are real, or those of every device type are known
    curves = _part(_part(manifest, "profile"), "curves")
    jobs = _jobs_by_workload(manifest)
    there = sorted(set(_device_types(config.get("cluster"))))
    programs: dict[tuple[str, str], list[str]] = {}
    for name in sorted(curves if jobs is None else jobs):
        measured = str(_part(curves, name).get("device") or "none")
        others = [kind for kind in there if kind.lower() not in measured.lower().split()]
        if name != RECORDED and measured != "none" and others:
            programs.setdefault((measured, " and ".join(others)), []).append(name)
    if programs:
        texts = (
            f"{measured}'s for {other} ({', '.join(names)})"
            for (measured, other), names in programs.items()
        )
        yield Assumption("devices", f"speeds of another device are used: {'; '.join(texts)}")


def _changes(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[Assumption]:
    engine, profile = _part(config, "engine"), _part(config, "profile")
    if "pace" in engine:
        return  # live: changes take their real time
    said = _part(manifest, "profile").get("rescale_costs")
    if engine.get("rescale_cost") == "zero" or engine.get("rescale_cost_factor") == 0:
        why = "by an option of the engine"
    elif _are_free(profile):
        why = f"the profile says: {said}" if said else "by the profile"
    else:
        return
    yield Assumption("changes", f"starts and changes of jobs cost no time ({why})")


def _are_free(profile: Mapping[str, Any]) -> bool:
    cells = profile.get("rescale_costs")
    return (
        not profile.get("costs")
        and isinstance(cells, list)
        and bool(cells)
        and all(
            isinstance(cell, Mapping)
            and cell.get("preparation_s") == 0
            and cell.get("pause_s") == 0
            for cell in cells
        )
    )


def _generated(manifest: Mapping[str, Any]) -> Iterator[Assumption]:
    fields = _part(manifest, "trace").get("generated") or ()
    if fields:
        named = ", ".join(_FIELDS.get(str(name), str(name)) for name in fields)
        yield Assumption("generated", f"made up, not recorded in the trace: {named}")


def _is_unpaced(config: Mapping[str, Any]) -> bool:
    """Return whether real workers train at their own speed."""
    return bool(_part(config, "engine").get("pace", "profile") != "profile")


def _device_types(part: Any) -> Iterator[str]:
    """Yield every ``device_type`` of a cluster's configuration, at any depth."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            if key == "device_type" and value is not None:
                yield str(value)
            else:
                yield from _device_types(value)
    elif isinstance(part, list):
        for each in part:
            yield from _device_types(each)


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key)
    return found if isinstance(found, Mapping) else {}

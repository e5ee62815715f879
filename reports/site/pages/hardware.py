"""Page on the machines, versions and load behind the records, from manifests alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from reports.drawing.figure import Table
from reports.site.pages.base import Material, Page, Section

_GIB = 2**30
_UNKNOWN = "unknown"


def build(material: Material) -> Page:
    """Return the page: machines, what each study was made with, load and versions."""
    by_study: dict[str, list[Mapping[str, Any]]] = {
        study: [run.stored.manifest for run in runs] for study, runs in material.studies.items()
    }
    for study, record in material.machines:
        by_study.setdefault(study, []).append(record)
    by_study = dict(sorted(by_study.items()))
    manifests = [each for own in by_study.values() for each in own]
    machines = _machines(by_study)
    links = material.links()
    return Page(
        name="hardware",
        short="Hardware",
        title="Hardware and versions",
        lead=f"{len(manifests)} manifests of {len(by_study)} studies, made on {len(machines)}"
        f" {'machine' if len(machines) == 1 else 'machines'}: processors, memory, versions, and"
        " how busy the machine was.",
        sections=[
            Section(
                "machines",
                "Machines",
                "Cores are those that the runs were allowed to use. Machines are distinguished "
                "by processor, cores and accelerators.",
                _machine_table(machines),
            ),
            Section(
                "made-with",
                "Code and machine of each study",
                "Commits are states of this project's code; runs 'with changes' were made with "
                "files that differ from their commit.",
                _study_table(by_study),
                links=links,
            ),
            Section(
                "load",
                "Load when the runs began",
                "The machine's own 1-minute average when a run began, over its cores: at 0 the "
                "machine was idle, at 1 or more all cores were in use. The load includes the "
                "study's own previous run.",
                _load_table(by_study),
                links=links,
            ),
            Section(
                "versions",
                "Versions of packages",
                "Every version in any manifest. Studies without a version were made with another "
                "version, or without the package.",
                _version_table(by_study),
            ),
        ],
    )


def _machine(manifest: Mapping[str, Any]) -> str:
    hardware = manifest.get("hardware") or {}
    return json.dumps([hardware.get(key) for key in ("cpu", "cores", "accelerators")])


def _machines(
    by_study: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for study, manifests in by_study.items():
        for each in manifests:
            found.setdefault(_machine(each), []).append((study, each))
    return found


def _machine_table(machines: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]) -> Table:
    rows = []
    for own in machines.values():
        hardware = [each.get("hardware") or {} for _, each in own]
        first = hardware[0]
        memory = sorted(
            {f"{h['memory_bytes'] / _GIB:.1f}" for h in hardware if "memory_bytes" in h}
        )
        rows.append(
            [
                str(first.get("cpu", _UNKNOWN)),
                str(first.get("cores", _UNKNOWN)),
                _span(memory),
                ", ".join(first.get("accelerators") or ()) or "none",
                str(first.get("machine", _UNKNOWN)),
                "; ".join(sorted({str(h.get("platform", _UNKNOWN)) for h in hardware})),
                str(len({study for study, _ in own})),
                str(len(own)),
            ]
        )
    header = ["processor", "cores", "memory, GiB", "accelerators", "architecture", "system",
              "studies", "manifests"]  # fmt: skip
    return Table(header, rows)


def _study_table(by_study: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    rows = []
    for study, manifests in by_study.items():
        days = sorted(str(each["created"])[:10] for each in manifests if each.get("created"))
        packages = [each.get("packages") or {} for each in manifests]
        rows.append(
            [
                study,
                str(len(manifests)),
                "; ".join(_values((m.get("hardware") or {}).get("cpu") for m in manifests)),
                ", ".join(_values(m.get("python") for m in manifests)),
                ", ".join(_values(p.get("torch") for p in packages)),
                ", ".join(_values(p.get("numpy") for p in packages)),
                _span(days),
                str(len(_values(m.get("git_commit") for m in manifests))),
                str(sum(bool(m.get("git_dirty")) for m in manifests)),
            ]
        )
    header = ["study", "manifests", "processor", "python", "torch", "numpy", "made on",
              "commits", "with changes"]  # fmt: skip
    return Table(header, rows)


def _load_table(by_study: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    rows = []
    for study, manifests in by_study.items():
        loads = [
            each["load"]["load_1min"] / each["hardware"]["cores"]
            for each in manifests
            if "load_1min" in (each.get("load") or {}) and (each.get("hardware") or {}).get("cores")
        ]
        free = [
            each["load"]["memory_available_bytes"] / _GIB
            for each in manifests
            if "memory_available_bytes" in (each.get("load") or {})
        ]
        spread = [min(loads), median(loads), max(loads)] if loads else []
        rows.append(
            [
                study,
                str(len(loads)),
                *([f"{value:.2f}" for value in spread] or ["", "", ""]),
                f"{min(free):.1f}" if free else "",
            ]
        )
    header = ["study", "runs", "least load a core", "median", "most", "least memory free, GiB"]
    return Table(header, rows)


def _version_table(by_study: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    found: dict[tuple[str, str], set[str]] = {}
    for study, manifests in by_study.items():
        for each in manifests:
            versions = {"python": each.get("python"), **(each.get("packages") or {})}
            for package, version in versions.items():
                if version:
                    found.setdefault((package, str(version)), set()).add(study)
    rows = [
        [package, version, str(len(studies)), ", ".join(sorted(set(by_study) - studies)) or "none"]
        for (package, version), studies in sorted(found.items())
    ]
    return Table(["package", "version", "studies", "studies without it"], rows)


def _values(values: Any) -> list[str]:
    return sorted({str(value) for value in values if value})


def _span(ordered: Sequence[str]) -> str:
    """Return the first and the last of ordered values as a text."""
    if not ordered:
        return _UNKNOWN
    return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"

"""Page on the time of decisions: by live jobs in replays, and for methods that plan whole nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reports.drawing.figure import Table
from reports.site.pages.base import Material, Page, Section


def build(material: Material) -> Page:
    """Return the page: a section for each study that draws decisions, and each record of plans."""
    drawn = [each for each in material.drawn if each.figure == "decision_latency"]
    sections = [
        Section(
            name=f"decisions-{each.study}",
            title=f"By live jobs: {each.study}",
            text="Milliseconds of the scheduler's calls, by the mean number of live jobs of a "
            "run; the caption of the figure on the study's page explains the bins.",
            table=each.table,
            pictures=[each] if each.has_picture else (),
            missing="" if each.table else "the runs have no timed decisions.",
        )
        for each in drawn
    ]
    sections += [_plans(name, record) for name, record in sorted(material.plans.items())]
    return Page(
        name="decisions",
        short="Decisions",
        title="How long decisions take",
        lead="Wall-clock time of the scheduler's calls over the number of live jobs, and of "
        "methods that find an optimal plan of whole nodes, compared on the same drawn "
        "instances.",
        sections=sections
        or [Section("decisions-none", "Decisions", "", missing="no record times decisions.")],
    )


def _plans(name: str, record: Mapping[str, Any]) -> Section:
    settings, rows = record["settings"], record["rows"]
    cpu = (record.get("hardware") or {}).get("cpu", "unknown processor")
    return Section(
        name=f"plans-{name}",
        title=f"Hu's allocator, fast and exact: {settings['jobs']} jobs",
        text=f"{settings['trials']} drawn instances of {settings['jobs']} jobs, "
        f"{settings['steps']} steps and {settings['nodes']} nodes, each planned by every method "
        f"in a newly drawn order, to a gap of {settings['gap']:.1%}; {cpu}. Below the bound: the "
        "distance of a plan's value from the best bound that any method has proven; the distance "
        "from the optimum can be smaller.",
        table=_plan_table(settings["methods"], rows),
    )


def _plan_table(methods: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Table:
    found = []
    for method in methods:
        own = [row for row in rows if row["method"] == method]
        wall = np.percentile([row["wall_ms"] for row in own], [50, 95, 100])
        cpu = np.percentile([row["cpu_ms"] for row in own], [50, 95])
        below = np.percentile([100.0 * row["below_best_bound"] for row in own], [50, 95, 100])
        found.append(
            [method, str(len(own)), *(f"{one:,.1f}" for one in (*wall, *cpu))]
            + [f"{one:.3f}" for one in below]
        )
    header = ["method", "plans", "wall p50, ms", "p95", "longest", "CPU p50, ms", "CPU p95",
              "below the bound p50, %", "below p95", "below most"]  # fmt: skip
    return Table(header, found)

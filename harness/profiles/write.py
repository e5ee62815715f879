"""Writes a measured profile as YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import yaml

from harness.profiles.costs import RescaleCost
from harness.profiles.evaluate import CostKey, Trial, median_cost, relative_spread
from harness.profiles.measure import Measurement

Trials = Mapping[tuple[str, str, int], Sequence[Trial]]
"""Trials by backend, workload and global batch."""


def profile_text(
    measurement: Measurement, trials: Trials, manifest: Mapping[str, Any], device: str
) -> str:
    """The YAML of a profile. ``manifest`` is that of one of the runs."""
    lines = [
        "# Measured with python -m harness.profile measure; docs/configuration.md has the format.",
        f"name: {_flow(measurement.name)}",
        "provenance:",
    ]
    lines += [
        f"  {key}: {_flow(value)}" for key, value in _provenance(measurement, manifest).items()
    ]
    lines.append("throughput:")
    backend = measurement.backends[0]
    speeds: dict[str, dict[int, Sequence[Trial]]] = {}
    for (name, workload, batch), found in trials.items():
        if name == backend:
            speeds.setdefault(workload, {})[batch] = found
    for workload, by_batch in speeds.items():
        table, spread = {}, {}
        for batch, found in sorted(by_batch.items()):
            rates = {
                size: [batch / trial.step_s[size] for trial in found if size in trial.step_s]
                for size in sorted({size for trial in found for size in trial.step_s})
            }
            table[batch] = {size: round(median(values), 4) for size, values in rates.items()}
            spread[batch] = {
                size: round(relative_spread(values), 4) for size, values in rates.items()
            }
        lines += [
            f"  {workload}:",
            f"    device: {_flow(device)}",
            f"    samples_per_s: {_flow(table)}",
            f"    spread: {_flow(spread)}",
        ]
    lines.append("rescale_costs:")
    lines += [f"  - {_flow(cell)}" for cell in _cells(trials)]
    return "\n".join(lines) + "\n"


def _provenance(measurement: Measurement, manifest: Mapping[str, Any]) -> dict[str, Any]:
    hardware, packages = manifest["hardware"], manifest["packages"]
    accelerators = ", ".join(hardware["accelerators"]) or "none"
    named = ", ".join(f"{name} {packages[name]}" for name in ("torch", "numpy") if name in packages)
    return {
        "hardware": (
            f"{hardware['cpu']}, {hardware['cores']} cores,"
            f" {hardware['memory_bytes'] / 2**30:.0f} GiB, accelerators: {accelerators}"
        ),
        "versions": f"python {manifest['python']}, {named}",
        "source": f"measured on {manifest['created'][:10]}, commit {manifest['git_commit']}",
        "licence": "Apache-2.0",
        "trials": measurement.trials,
        "spread": "largest minus smallest trial, over the median; beside each curve and cost",
        "rescale_costs": (
            "measured in the same runs; medians. A change that was not measured is charged the"
            " largest measured cost of its backend and workload"
        ),
        "measured_here": True,
        "setting": (
            f"workload={measurement.pool} cluster={measurement.cluster}"
            f" backend={','.join(measurement.backends)} {' '.join(measurement.words)}".strip()
        ),
        "method": (
            f"throughput: {measurement.backends[0]}, mean of at least {measurement.steps} steps at"
            " every visit of a size, median over trials"
        ),
    }


def _cells(trials: Trials) -> list[dict[str, Any]]:
    """Cost cells of every backend and workload; batches are pooled."""
    pooled: dict[tuple[str, str], dict[CostKey, list[RescaleCost]]] = {}
    for (backend, workload, _), found in trials.items():
        costs = pooled.setdefault((backend, workload), {})
        for trial in found:
            for key, values in trial.costs.items():
                costs.setdefault(key, []).extend(values)
    cells = []
    for (backend, workload), costs in pooled.items():
        largest = RescaleCost(0.0, 0.0, {})
        for (kind, before, after), values in sorted(costs.items()):
            cost = median_cost(values)
            largest = max(largest, cost, key=lambda one: one.preparation_s + one.pause_s)
            totals = [value.preparation_s + value.pause_s for value in values]
            cells.append(
                {
                    "backend": backend,
                    "workload": workload,
                    "kind": kind.value,
                    "from": before,
                    "to": after,
                    **_seconds(cost),
                    "phases_s": {name: round(value, 4) for name, value in cost.phases_s.items()},
                    "trials": len(values),
                    "spread_s": round(max(totals) - min(totals), 4),
                }
            )
        cells.append(
            {
                "backend": backend,
                "workload": workload,
                **_seconds(largest),
                "remark": "assumed for changes that were not measured",
            }
        )
    return cells


def _seconds(cost: RescaleCost) -> dict[str, float]:
    return {
        "preparation_s": round(cost.preparation_s, 4),
        "pause_s": round(cost.pause_s, 4),
    }


def _flow(value: Any) -> str:
    """A value on one line of YAML."""
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=1_000_000, allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()

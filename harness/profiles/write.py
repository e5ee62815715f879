"""Writer of a measured profile as YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import yaml

from harness.profiles.costs import RescaleCost
from harness.profiles.evaluate import CostKey, ProfileTrial, median_cost, relative_spread
from harness.profiles.measurement import Measurement

Trials = Mapping[tuple[str, str | None, str, int], Sequence[ProfileTrial]]
"""Trials by backend, warmth (None: not distinguished), workload and global batch."""


def setting(measurement: Measurement) -> str:
    """Return the options of a measurement as text, equal for comparable measurements."""
    words = [f"workload={measurement.pool}", f"cluster={measurement.cluster}"]
    words.append(f"backend={','.join(measurement.backends)}")
    if measurement.warmths:
        words.append(f"backend.start={','.join(measurement.warmths)}")
    if measurement.placements:
        words.append(f"placement={','.join(measurement.placements)}")
    words += [word for word in measurement.words if not word.startswith("force=")]
    return " ".join(words)


def profile_text(
    measurement: Measurement, trials: Trials, manifest: Mapping[str, Any], device: str
) -> str:
    """Return the YAML of a profile; ``manifest`` is that of one of the runs."""
    lines = [
        "# Measured with python -m harness.profile measure;"
        " docs/reference/configuration.md has the format.",
        f"name: {_flow(measurement.name)}",
        "provenance:",
    ]
    lines += [
        f"  {key}: {_flow(value)}" for key, value in _provenance(measurement, manifest).items()
    ]
    lines.append("throughput:")
    backend = measurement.backends[0]
    speeds: dict[str, dict[int, list[ProfileTrial]]] = {}
    for (name, _, workload, batch), found in trials.items():
        if name == backend:
            speeds.setdefault(workload, {}).setdefault(batch, []).extend(found)
    for workload, by_batch in speeds.items():
        lines += [f"  {workload}:", f"    device: {_flow(device)}"]
        lines += [f"    {line}" for line in _speeds(by_batch, are_across=False)]
        if across := _speeds(by_batch, are_across=True):
            lines += ["    across_hosts:", *(f"      {line}" for line in across)]
    lines.append("rescale_costs:")
    lines += [f"  - {_flow(cell)}" for cell in _cells(trials)]
    return "\n".join(lines) + "\n"


def _speeds(by_batch: Mapping[int, Sequence[ProfileTrial]], *, are_across: bool) -> list[str]:
    """Return speeds and their spread by batch and size, on one host or across several."""
    table, spread = {}, {}
    for batch, found in sorted(by_batch.items()):
        rates: dict[int, list[float]] = {}
        for trial in found:
            for size, step_s in trial.step_s.items():
                if (size in trial.across) == are_across:
                    rates.setdefault(size, []).append(batch / step_s)
        if rates:
            table[batch] = {size: round(median(rates[size]), 4) for size in sorted(rates)}
            spread[batch] = {size: round(relative_spread(rates[size]), 4) for size in sorted(rates)}
    return [f"samples_per_s: {_flow(table)}", f"spread: {_flow(spread)}"] if table else []


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
        "spread": "largest minus smallest trial, over the median; next to each curve and cost",
        "rescale_costs": (
            "measured in the same runs; medians. A change that was not measured is charged the"
            " largest measured cost of its backend, warmth and workload"
        ),
        "measured_here": True,
        "speeds_under": measurement.backends[0],
        "setting": setting(measurement),
        "method": (
            f"throughput: {measurement.backends[0]}, mean of at least {measurement.steps} steps "
            "each time at a size, median over trials"
        ),
    }


def _cells(trials: Trials) -> list[dict[str, Any]]:
    """Return cost cells of every backend, warmth and workload, over all batches together."""
    pooled: dict[tuple[str, str | None, str], dict[CostKey, list[RescaleCost]]] = {}
    for (backend, warmth, workload, _), found in trials.items():
        costs = pooled.setdefault((backend, warmth, workload), {})
        for trial in found:
            for key, values in trial.costs.items():
                costs.setdefault(key, []).extend(values)
    cells = []
    for (backend, warmth, workload), costs in pooled.items():
        whose = {"backend": backend, **({"warmth": warmth} if warmth else {}), "workload": workload}
        largest = RescaleCost(0.0, 0.0, {})
        for (kind, before, after), values in sorted(costs.items()):
            cost = median_cost(values)
            largest = max(largest, cost, key=lambda one: one.preparation_s + one.pause_s)
            totals = [value.preparation_s + value.pause_s for value in values]
            cells.append(
                {
                    **whose,
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
                **whose,
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
    """Return a value on one line of YAML."""
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=1_000_000, allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()

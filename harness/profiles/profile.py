"""The profile: throughput curves and rescale costs of many workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.contracts.change import ChangeKind
from harness.contracts.process import Warmth
from harness.profiles.costs import CostCell, RescaleCost, find_cost
from harness.profiles.curves import Curve, Family
from harness.profiles.errors import ProfileError
from harness.profiles.shown import Shown
from harness.profiles.spread import deviation, nearest

RECORDED = "recorded"
"""Workload of jobs whose program is unknown: work in slot-seconds, T(w) = w assumed."""
STATED = "stated_digest"
"""Key of the provenance: SHA-256 of the variation between trials and of the speeds' backend."""


@dataclass(frozen=True)
class Profile:
    """Speeds and costs with their provenance, built by ``load_profile``."""

    name: str
    provenance: Mapping[str, Any]
    """Hardware, versions, source, licence, trials, spread, measured_here, rescale_costs,
    digest, and ``curves``: the device and source of every workload's curve."""
    digest: str
    """SHA-256 of all numbers of the profile except those in ``stated_digest``."""
    families: Mapping[str, Family] = field(repr=False)
    cost_cells: Sequence[CostCell] = field(repr=False)
    device_types: tuple[str, ...] = ()
    """Device types with their own curves, sorted; empty: all types have the same speed."""
    shown: Shown | None = None
    """Errors of the speeds that schedulers see; None: schedulers see the true speeds."""
    noise_scale: Mapping[str, float] = field(default_factory=dict)
    """Gradient noise scale by workload, samples; unknown ones are absent."""
    _costs: dict[tuple[Any, ...], RescaleCost] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def stated_digest(self) -> str:
        """SHA-256 of the variation between trials and of the speeds' backend; "" if not stated."""
        return str(self.provenance.get(STATED, ""))

    @property
    def workloads(self) -> tuple[str, ...]:
        """Workloads with a curve, sorted; ``recorded`` is always one of them."""
        return tuple(sorted(self.families))

    def as_shown(self, seed: int) -> Profile:
        """Return the profile with the speeds that the schedulers of a run with this seed see."""
        if self.shown is None:
            return self
        return replace(self, families=self.shown.mistaken(self.families, seed))

    def throughput(self, workload: str, global_batch: int) -> Curve:
        """Return the curve of a workload at a global batch; equal arguments give the same object.

        Raises:
            ProfileError: the profile has no such workload.
        """
        family = self.families.get(workload)
        if family is None:
            raise ProfileError(self.curve_problems([workload]))
        return family.curve(global_batch)

    def curve_problems(
        self, workloads: Iterable[str], device_types: Sequence[str] = ()
    ) -> list[str]:
        """Return a problem, with a remedy, for each workload whose speed is unknown.

        Every part that uses curves calls this before a run: the simulated engine, a paced live
        engine, and schedulers that see speeds.

        Args:
            workloads: workloads of the jobs.
            device_types: device types of the cluster. Each of them needs its own curves if the
                profile distinguishes types.
        """
        problems: list[str] = []
        for workload in sorted(set(workloads)):
            if workload in self.families:
                problems += self._device_problems(workload, device_types)
                continue
            problems.append(
                f"profile {self.name}: no throughput curve for workload {workload!r};"
                f" known: {', '.join(self.workloads)}; choose another profile, measure one"
                " (python -m harness.profile measure), or give the jobs other workloads"
                " (transform AssignWorkloads; models= or categories= of a drawn trace)"
            )
        return problems

    def across_hosts(self, workload: str, device_type: str | None = None) -> Family | None:
        """Return a workload's curves for slots on several hosts; None: not measured separately."""
        family = self.families.get(workload)
        if family is None:
            return None
        return family.devices.get(device_type or "", family).across

    def speed_deviation(self, workload: str, global_batch: int, num_slots: int) -> float:
        """Return the relative standard deviation of a speed from trial to trial.

        The deviation at the nearest measured batch and slots is used. The result is 0 if the
        profile does not say how its trials differed.
        """
        curves = self.provenance.get("curves", {})
        spread = nearest(curves.get(workload, {}).get("spread"), global_batch, num_slots)
        return deviation(spread, self.provenance.get("trials"))

    def _device_problems(self, workload: str, device_types: Sequence[str]) -> list[str]:
        """Return a problem for each device type on which a workload's speed is unknown.

        The list is empty if the profile does not distinguish device types.
        """
        if not self.device_types or workload == RECORDED:
            return []
        family = self.families[workload]
        own = self.provenance["curves"][workload].get("device")
        return [
            f"profile {self.name}: no throughput curve for workload {workload!r} on device type "
            f"{device_type!r}; known: {', '.join(sorted({own, *family.devices}))}; name a profile "
            "with such a curve under devices, or choose another cluster or other workloads"
            for device_type in device_types
            if device_type != own and device_type not in family.devices
        ]

    def rescale_cost(
        self,
        backend: str,
        workload: str,
        kind: ChangeKind,
        from_slots: int,
        to_slots: int,
        warmth: Warmth | None = None,
    ) -> RescaleCost:
        """Return the cost of a change; ``find_cost`` has the rule for absent cells.

        Raises:
            ProfileError: no cell matches the change.
        """
        key = (backend, workload, kind, from_slots, to_slots, warmth)
        cost = self._costs.get(key)
        if cost is None:
            cost = find_cost(self.cost_cells, *key)
            if cost is None:
                raise ProfileError(
                    [
                        f"profile {self.name}: no rescale cost for backend {backend!r}"
                        f"{f', start={warmth.value}' if warmth else ''}, workload"
                        f" {workload!r}, {kind.value} {from_slots}→{to_slots}; measure it, or add a"
                        " cell without sizes to rescale_costs, or run with"
                        " engine.rescale_cost=zero"
                    ]
                )
            self._costs[key] = cost
        return cost

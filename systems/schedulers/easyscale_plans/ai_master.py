"""Scheduler of a single job: EasyScale's AIMaster (section 3.4.2, intra-job scheduler)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.contracts.job import JobSpec
from harness.contracts.view import Throughput
from harness.profiles.virtual_workers import capability, step_s
from systems.schedulers.easyscale_plans.model import Counts, Device
from systems.schedulers.easyscale_plans.plans import Planner, Scales
from systems.schedulers.easyscale_plans.proposals import Proposal, propose, starts

Plan = Mapping[int, int]
"""Virtual workers by slot, in rank order."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings that all jobs' AIMasters share; see ``EasyScale`` for the meaning."""

    max_waste_percent: float
    top_k: int
    max_added: int
    exchange: bool
    scales: Scales
    learn_above: float
    slowdown: float


@dataclass(frozen=True, slots=True)
class PlanTrial:
    """Reconfiguration of a job that has not proved faster yet."""

    before: Plan
    rate_before: float
    """Samples per second before the reconfiguration."""
    after: Plan


class AIMaster:
    """Planner of one job: its configuration on given slots, and its proposals for more slots.

    C_i begin with the profile's values for the workload (the historical data of the paper). The
    measured rates of the job correct them. A rate only measures the slots that take longest, so
    only their C_i is lowered. A step that is shorter than expected raises every C_i that would not
    allow it.
    """

    def __init__(
        self,
        spec: JobSpec,
        curve: Throughput,
        device_types: Sequence[str],
        *,
        rules: Rules,
        least: int,
        most: int,
        one_type: bool,
    ) -> None:
        self.spec = spec
        self.least = least
        self.most = most
        self.one_type = one_type
        self.trial: PlanTrial | None = None
        self.plan: Plan = {}
        """Plan that the job was last given; empty: none."""
        self._rules = rules
        self._rejected: set[Counts] = set()
        self._rejected_plans: list[Plan] = []
        batch = spec.global_batch
        devices = tuple(Device(capability(curve, spec, batch, name)) for name in device_types)
        self._planner = Planner(
            devices,
            spec.num_logical_workers,
            rules.max_waste_percent,
            rules.scales,
        )

    def can_run_on(self, counts: Counts) -> bool:
        """Return whether the job's least number of slots is among these counts of each type."""
        usable = [
            count if device.capability > 0 else 0
            for count, device in zip(counts, self._planner.devices, strict=True)
        ]
        return (max(usable) if self.one_type else sum(usable)) >= self.least

    def best_plan(self, slots: Sequence[int], type_of: Sequence[int]) -> Plan:
        """Return the fastest configuration on these slots, as virtual workers by slot (step 1)."""
        types = [type_of[slot] for slot in slots]
        nums = tuple(types.count(index) for index in range(len(self._planner.devices)))
        best = self._planner.best(nums)
        assert best is not None, "the caller only takes slots on which the job can run"
        return dict(zip(slots, self._planner.virtual_workers(best, types), strict=True))

    def start(self, free: Counts) -> list[Proposal]:
        """Return the configurations that the job can begin with, fastest first."""
        spec = self.spec
        return starts(
            self._planner,
            job_id=spec.job_id,
            order=spec.order,
            free=free,
            least=self.least,
            one_type=self.one_type,
        )

    def proposals(self, held: Counts, free: Counts) -> list[Proposal]:
        """Return the job's proposals for more slots than it holds (step 2)."""
        spec = self.spec
        return propose(
            self._planner,
            job_id=spec.job_id,
            order=spec.order,
            held=held,
            free=free,
            least=self.least,
            most=self.most,
            max_added=self._rules.max_added,
            top_k=self._rules.top_k,
            one_type=self.one_type,
            exchange=self._rules.exchange,
            rejected=self._rejected,
        )

    def try_out(self, plan: Plan, rate: float) -> None:
        """Remember that the job changes to this plan, which must be judged afterwards.

        Args:
            plan: the next plan.
            rate: present rate, samples per second; 0: the job does not train, so nothing is judged.
        """
        self.trial = PlanTrial(self.plan, rate, plan) if rate > 0.0 else None

    def judge(self, rate: float, type_of: Sequence[int]) -> Plan | None:
        """Judge the last reconfiguration once it is done, and learn from the rate (steps 3 and 4).

        Args:
            rate: measured rate, samples per second.
            type_of: index of the device type of every slot.

        Returns:
            The plan to change to. It is the previous plan if the job has become slower by more than
            the rules allow, or a plan that is better by the corrected C_i. None: the plan stays.
        """
        trial, self.trial = self.trial, None
        if trial is not None and rate < trial.rate_before * (1 - self._rules.slowdown):
            if trial.before.keys() == trial.after.keys():
                self._rejected_plans.append(trial.after)
            else:
                types = [type_of[slot] for slot in trial.after]
                self._rejected.add(
                    tuple(types.count(index) for index in range(len(self._planner.devices)))
                )
            return trial.before
        better = self._better_plan(type_of) if self._learn(rate, type_of) else None
        if better is not None:
            self.try_out(better, rate)
        return better

    def _learn(self, rate: float, type_of: Sequence[int]) -> bool:
        """Correct C_i by a measured rate; return whether the rate was far from the expected
        rate."""
        devices = list(self._planner.devices)
        speeds = [devices[type_of[slot]].capability for slot in self.plan]
        expected_s = step_s(tuple(self.plan.values()), speeds)
        measured_s = self.spec.global_batch / rate
        if abs(measured_s / expected_s - 1) <= self._rules.learn_above:
            return False
        # In a longer step, the slots expected to take longest are corrected. In a shorter step,
        # all slots that were expected to take longer than it did.
        limit_s = min(measured_s, expected_s * (1 - 1e-9))
        counts: dict[int, int] = {}
        for slot, count in self.plan.items():
            counts[type_of[slot]] = max(count, counts.get(type_of[slot], 0))
        for index, count in counts.items():
            if count / devices[index].capability >= limit_s:
                devices[index] = replace(devices[index], capability=count / measured_s)
        self._planner = replace(self._planner, devices=tuple(devices))
        return True

    def _better_plan(self, type_of: Sequence[int]) -> Plan | None:
        """Return another plan for the same slots if it is now expected to be faster, else None."""
        slots = tuple(self.plan)
        better = self.best_plan(slots, type_of)
        speeds = [self._planner.devices[type_of[slot]].capability for slot in slots]
        now_s = step_s(tuple(self.plan.values()), speeds)
        gain = now_s / step_s(tuple(better.values()), speeds) - 1
        if gain <= self._rules.learn_above or better in self._rejected_plans:
            return None
        return better

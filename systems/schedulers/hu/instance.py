"""Hu et al.'s allocation problem in numbers: instances, plans and the value of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """Job that holds one of ``counts`` nodes in every step."""

    counts: tuple[int, ...]
    """Legal node counts, ascending (K between n_min and n_max)."""
    progress: tuple[float, ...]
    """Share of its remaining demand that one step serves on each count: p * speed(k) / d."""

    def __post_init__(self) -> None:
        if not self.counts or list(self.counts) != sorted(set(self.counts)) or self.counts[0] < 1:
            raise ValueError(f"counts are {self.counts}; give each once, from 1, ascending")
        if len(self.progress) != len(self.counts) or min(self.progress) < 0:
            raise ValueError(f"progress is {self.progress}; give one number >= 0 for each count")


@dataclass(frozen=True, slots=True)
class Instance:
    """Jobs that share ``num_nodes`` nodes for ``num_steps`` steps."""

    jobs: tuple[Job, ...]
    num_nodes: int
    num_steps: int

    def __post_init__(self) -> None:
        least = sum(job.counts[0] for job in self.jobs)
        if least > self.num_nodes:
            raise ValueError(
                f"the jobs need {least} nodes at least, but there are {self.num_nodes}; leave out "
                "the last jobs of the queue"
            )
        if self.num_steps < 1:
            raise ValueError(f"num_steps is {self.num_steps}; plan at least 1 step")


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A feasible plan, its value and a bound on the value of any plan."""

    choices: tuple[tuple[int, ...], ...]
    """Index of the held count among the job's counts: for each job, in each step."""
    value: float
    """Objective (1): the area under the jobs' curves of progress, in steps."""
    bound: float
    """Proven upper bound on the value of any plan."""

    @property
    def gap(self) -> float:
        """Share of the bound that is not reached, 0 to 1."""
        return (self.bound - self.value) / self.bound if self.bound > 0 else 0.0

    def first_counts(self, instance: Instance) -> list[int]:
        """Return the nodes of every job in the first step, the only step that is applied."""
        return [
            job.counts[choice[0]] for job, choice in zip(instance.jobs, self.choices, strict=True)
        ]


def job_value(job: Job, choice: Sequence[int]) -> float:
    """Return the area under one job's curve of progress: sum over t of s_t / d, eqs. (2) to (4)."""
    done = area = 0.0
    for position in choice:
        done = min(1.0, done + job.progress[position])
        area += done
    return area


def plan_value(instance: Instance, choices: Sequence[Sequence[int]]) -> float:
    """Return objective (1) of a plan.

    Raises:
        ValueError: the plan uses more nodes than there are, eq. (6).
    """
    jobs = instance.jobs
    for step in range(instance.num_steps):
        used = sum(job.counts[choice[step]] for job, choice in zip(jobs, choices, strict=True))
        if used > instance.num_nodes:
            raise ValueError(f"step {step} uses {used} of {instance.num_nodes} nodes")
    return sum(job_value(job, choice) for job, choice in zip(jobs, choices, strict=True))

"""Optimal node allocator of Hu et al.: a rolling horizon and a mixed-integer program."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from harness.contracts.decision import Decision, Grant, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.hu.activation import Activation, period_problems
from systems.schedulers.hu.horizon import Candidates, candidates
from systems.schedulers.hu.instance import Instance, Job
from systems.schedulers.hu.pool import JobPool
from systems.schedulers.hu.solve import METHODS, MOST_SCHEDULES
from systems.schedulers.hu.spare import grown


class HuMilp:
    """Optimal allocator that plans node counts for several steps, applies the first step, and plans
    again.

    Source: Hu et al., "An Optimal Resource Allocator of Elastic Training for Deep Learning Jobs on
    Cloud", section 4.4 (eqs. (1), (2), (5), (6), (12), (13), (15) to (20)). A slot is a node. Every
    ``every_s`` seconds (theirs: 300) it maximises a sum over jobs and ``num_steps`` steps of that
    length (5): the share of the remaining work done by the end of the step. Counts are powers of
    two up to ``most_nodes`` (16). Between these times, freed nodes go to the queue ``reaction_s``
    later (1).

    ``method``: ``fast`` is within ``gap`` (a share of a bound that it proves itself) and optimal
    below 30 jobs. The others are optimal to within ``gap``, by HiGHS: ``columns`` from what
    ``fast`` leaves open, ``tight`` with a binary for each job, step and count, and ``big_m`` as the
    paper prints it.

    ``spare_nodes``: ``grow`` gives the nodes that the plan's first step leaves idle to the smallest
    jobs. No plan loses value by that ("when computational resources are abundant the best decision
    would be to allocate as many nodes as possible to all jobs", section 5.2). ``idle`` leaves them.

    The paper leaves these open; chosen here: jobs with nodes and then the queue, first in, first
    out, take part while the least sizes of all fit (15); remaining work is at least ``least_eta_s``
    seconds on one node; speeds are the job's own throughput curve, or with ``loss_per_doubling``
    the paper's (0.2: n * 0.8^log2 n). ``fast`` and ``columns`` enumerate every schedule of a job,
    so with 16 nodes ``num_steps`` is 6 at most. A job that holds nodes is never suspended. A job
    whose least size exceeds the cluster is refused. If too many nodes are down for the least sizes
    of all jobs, jobs that lost workers keep their other nodes.

    Checked: ``compared``: plans with all plans of small cases, and the four methods with each
    other; also figures 5 and 7 of the paper.

    Raises:
        ValueError: an option is out of its range.
    """

    checked: ClassVar[str] = "compared"
    needs: frozenset[Knowledge] = frozenset({Knowledge.REMAINING_WORK, Knowledge.THROUGHPUT})
    requires: frozenset[Requirement] = frozenset({Requirement.RESCALE})
    wants_progress = False

    def __init__(
        self,
        every_s: float = 300.0,
        num_steps: int = 5,
        most_nodes: int = 16,
        reaction_s: float = 1.0,
        method: str = "fast",
        gap: float = 1e-3,
        least_eta_s: float = 60.0,
        loss_per_doubling: float | None = None,
        spare_nodes: Literal["grow", "idle"] = "grow",
    ) -> None:
        problems = period_problems(every_s, reaction_s, most_nodes)
        if num_steps < 1:
            problems.append(f"num_steps is {num_steps}; plan at least 1 step")
        schedules = max(1, most_nodes).bit_length() ** max(1, num_steps)
        if method not in METHODS:
            problems.append(f"method is {method!r}; known: {', '.join(METHODS)}")
        elif method in ("fast", "columns") and schedules > MOST_SCHEDULES:
            problems.append(
                f"num_steps {num_steps} with most_nodes {most_nodes} gives {schedules:,} schedules"
                f" of a job, and method {method} writes down {MOST_SCHEDULES:,} at most; plan"
                " fewer steps, or set method=tight"
            )
        if not 0 < gap < 1:
            problems.append(f"gap is {gap}; give a share of the optimum above 0, as 0.001")
        if not least_eta_s > 0:
            problems.append(f"least_eta_s is {least_eta_s}; give seconds above 0, as 60")
        if loss_per_doubling is not None and not 0 <= loss_per_doubling < 1:
            problems.append(
                f"loss_per_doubling is {loss_per_doubling}; give a share from 0 to below 1, as"
                " 0.2, or null for the jobs' own curves"
            )
        if spare_nodes not in ("grow", "idle"):
            problems.append(f"spare_nodes is {spare_nodes!r}; known: grow, idle")
        if problems:
            raise ValueError("\n".join(problems))
        self._every_s = every_s
        self._num_steps = num_steps
        self._solve = METHODS[method]
        self._gap = gap
        self._least_eta_s = least_eta_s
        self._loss = loss_per_doubling
        self._grows = spare_nodes == "grow"
        self._activation = Activation(every_s, reaction_s, most_nodes)

    def decide(self, view: ClusterView) -> Decision:
        """Carry out the first step of a new plan, if a plan is due."""
        return self._activation.decide(view, self._allocate)

    def _allocate(self, view: ClusterView, pool: JobPool) -> dict[str, Grant | Suspend]:
        part = candidates(view, pool)
        counts = self._planned(view, pool, part)
        before = {job_id: _granted(view.jobs[job_id]) for job_id in counts}
        # Jobs that give nodes up come first, then new jobs: no job grows before all have nodes.
        changed = [job_id for job_id, count in counts.items() if count != before[job_id]]
        changed.sort(key=lambda job_id: (counts[job_id] > before[job_id], before[job_id] > 0))
        withdrawn: dict[str, Grant | Suspend] = dict.fromkeys(part.withdrawn, Suspend())
        return withdrawn | {job_id: Grant(counts[job_id]) for job_id in changed}

    def _planned(self, view: ClusterView, pool: JobPool, part: Candidates) -> dict[str, int]:
        """Return the nodes in the first step of every job that takes part."""
        if not part.job_ids:
            return {}
        jobs = tuple(
            self._job(view.jobs[job_id], pool.counts(job_id), view.time_s)
            for job_id in part.job_ids
        )
        instance = Instance(jobs, part.num_nodes, self._num_steps)
        counts = self._solve(instance, self._gap).first_counts(instance)
        if self._grows:
            counts = grown(instance, counts)
        return dict(zip(part.job_ids, counts, strict=True))

    def _job(self, job: JobView, counts: tuple[int, ...], now_s: float) -> Job:
        """Return the job of the model; demand and speeds become shares served in one step."""
        curve = job.throughput
        assert curve is not None, "HuMilp declares that it needs THROUGHPUT"
        alone = curve.samples_per_s(1)
        left = max(job.remaining_samples(now_s), self._least_eta_s * alone, 1e-9)
        speeds = (
            [curve.samples_per_s(count) for count in counts]
            if self._loss is None
            else [alone * count ** (1.0 + math.log2(1.0 - self._loss)) for count in counts]
        )
        return Job(counts, tuple(self._every_s * speed / left for speed in speeds))


def _granted(job: JobView) -> int:
    return 0 if job.grant is None else job.grant.num_slots

"""Greedy node allocator with which Hu et al. compare."""

from __future__ import annotations

from typing import ClassVar

from harness.contracts.decision import Decision, Grant, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView
from systems.schedulers.hu.activation import Activation, period_problems
from systems.schedulers.hu.pool import JobPool


class HuGreedy:
    """Greedy allocator that leaves no node idle: the newest jobs grow, the oldest are halved for
    the queue.

    Source: Hu et al., "An Optimal Resource Allocator of Elastic Training for Deep Learning Jobs on
    Cloud", section 3. A slot is a node. Every ``every_s`` seconds (theirs: 300), the present state
    decides:
    (1) Idle nodes and a queue: the first job of the queue gets as many nodes as possible, and so
    on.
    (2) Idle nodes, no queue: the job with the shortest training time grows as much as possible,
    then the next.
    (3) No idle nodes, a queue: the job with the longest training time is halved, and the queue gets
    what it gave up.
    (4) Neither: nothing happens.
    Between these times, freed nodes go to the queue ``reaction_s`` later (theirs: 1). No job has
    more than ``most_nodes`` (16).

    The paper leaves these open; chosen here: counts are powers of two; training time is time with
    nodes; ``halvings`` jobs at most are halved in one activation, those longest in training first;
    jobs that cannot be halved are skipped; idle nodes that are too few for the first job of the
    queue count as none. A job whose least size exceeds the cluster is refused. A job that lost some
    of its workers continues with the others, and may grow and be halved like any other.

    Checked: ``exact``, on both examples of their figure 4 and on figure 8; the four scenarios in
    cases computed by hand.

    Raises:
        ValueError: an option is out of its range.
    """

    checked: ClassVar[str] = "exact"
    needs: frozenset[Knowledge] = frozenset()
    requires: frozenset[Requirement] = frozenset({Requirement.RESCALE})
    wants_progress = False

    def __init__(
        self,
        every_s: float = 300.0,
        most_nodes: int = 16,
        reaction_s: float = 1.0,
        halvings: int = 1,
    ) -> None:
        problems = period_problems(every_s, reaction_s, most_nodes)
        if halvings < 1:
            problems.append(f"halvings is {halvings}; allow at least 1")
        if problems:
            raise ValueError("\n".join(problems))
        self._halvings = halvings
        self._activation = Activation(every_s, reaction_s, most_nodes)

    def decide(self, view: ClusterView) -> Decision:
        """Allocate nodes as the present scenario asks, if an allocation is due."""
        return self._activation.decide(view, self._allocate)

    def _allocate(self, view: ClusterView, pool: JobPool) -> dict[str, Grant | Suspend]:
        if not pool.has_queue():
            return {job_id: Grant(count) for job_id, count in self._grown(view, pool).items()}
        given = pool.hand_out(view.num_free, pool.queue())
        halved: dict[str, int] = {}
        if not given:
            halved = self._halved(view, pool)
            freed = sum(self._held(view, job_id) - count for job_id, count in halved.items())
            given = pool.hand_out(view.num_free + freed, pool.queue())
        return {job_id: Grant(count) for job_id, count in (halved | given).items()}

    def _grown(self, view: ClusterView, pool: JobPool) -> dict[str, int]:
        """Give the idle nodes to the jobs that have trained for the shortest time (scenario 2)."""
        grown: dict[str, int] = {}
        idle = view.num_free
        for job_id in self._by_training_time(view, pool, longest_first=False):
            held = self._held(view, job_id)
            more = [count for count in pool.counts(job_id) if held < count <= held + idle]
            if more:
                grown[job_id] = more[-1]
                idle -= more[-1] - held
        return grown

    def _halved(self, view: ClusterView, pool: JobPool) -> dict[str, int]:
        """Halve the jobs that have trained for the longest time (scenario 3)."""
        halved: dict[str, int] = {}
        for job_id in self._by_training_time(view, pool, longest_first=True):
            half = self._held(view, job_id) // 2
            if half in pool.counts(job_id):
                halved[job_id] = half
                if len(halved) == self._halvings:
                    break
        return halved

    @staticmethod
    def _by_training_time(view: ClusterView, pool: JobPool, *, longest_first: bool) -> list[str]:
        """Return jobs with nodes, by their time with nodes; ties: by arrival."""
        sign = -1.0 if longest_first else 1.0
        return sorted(
            pool.training(),
            key=lambda job_id: sign * view.jobs[job_id].executed_time_s(view.time_s),
        )

    @staticmethod
    def _held(view: ClusterView, job_id: str) -> int:
        grant = view.jobs[job_id].grant
        assert grant is not None, "a job that trains has a grant"
        return grant.num_slots

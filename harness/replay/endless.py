"""Detection of jobs that would wait without end, and the message for them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.cluster import Cluster
from harness.errors import RunError
from harness.replay.job_book import ReplayJob

MOST_IDLE_WAKES = 1000
"""Consecutive wake-ups without effect after which the remaining jobs count as stuck.

A scheduler may leave the cluster empty for some rounds on purpose. Without a bound, endless rounds
would keep the replay from ending.
"""


class ReplayError(RunError):
    """Dead end of a replay: the scheduler left jobs waiting, and no event can come."""


class IdleWakes:
    """Counter of consecutive wake-ups without effect, while only wake-ups can come."""

    def __init__(self) -> None:
        self._number = 0
        self._since_s = 0.0

    def reset(self) -> None:
        """Start from zero, because something happened."""
        self._number = 0

    def note(self, now_s: float) -> str | None:
        """Count one more wake-up. Return the reason to give up once there are too many."""
        if self._number == 0:
            self._since_s = now_s
        self._number += 1
        if self._number <= MOST_IDLE_WAKES:
            return None
        return (
            f"the scheduler asked to be woken {MOST_IDLE_WAKES:,} times in a row"
            f" ({now_s - self._since_s:,.0f} s of the run's clock) and started nothing"
        )


def waiting_for_ever(
    live: Mapping[str, ReplayJob], cluster: Cluster, num_down: int, why: str
) -> ReplayError:
    """Return the error that names the remaining jobs, their requests, and the way out.

    Args:
        live: the jobs that have arrived and not ended.
        cluster: the cluster on which they wait.
        num_down: number of its slots that are down.
        why: why the scheduler will not start them, as a clause.
    """
    asked = [f"{job_id}, which requests {_slots(live[job_id])}" for job_id in sorted(live)[:5]]
    fact, hint = "", "Give the cluster more slots"
    if num_down:
        fact = f" {num_down} of {cluster.num_slots} slots are down and never come up again."
        hint = "Let the trace bring slots up again"
    wait = "job waits" if len(live) == 1 else "jobs wait"
    return ReplayError(
        f"{len(live)} {wait} for ever (first: {'; '.join(asked)}): nothing runs, nothing is due"
        f" and {why}.{fact} {hint}, or let the scheduler refuse what it cannot serve."
    )


def _slots(job: ReplayJob) -> str:
    number = job.spec.requested_slots
    return f"{number} slot{'' if number == 1 else 's'}"

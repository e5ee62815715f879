"""Proposals of jobs for more slots, and their approval by the cluster (EasyScale, 3.4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from systems.schedulers.easyscale_plans.model import Configuration, Counts
from systems.schedulers.easyscale_plans.plans import Planner, choices


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration with devices that a job does not have."""

    job_id: str
    order: tuple[float, str]
    """Tie-breaker of the job: arrival, then job id."""
    configuration: Configuration
    added: Counts
    """Devices of each type that the proposal adds."""
    speedup_per_slot: float
    """Value of ``(perf_new / perf_old - 1) / added``; infinite for a job without devices."""

    @property
    def num_added(self) -> int:
        """Number of devices that the proposal adds in all."""
        return sum(self.added)


def propose(
    planner: Planner,
    *,
    job_id: str,
    order: tuple[float, str],
    held: Counts,
    free: Counts,
    least: int,
    most: int,
    max_added: int,
    top_k: int,
    one_type: bool,
    exchange: bool,
    rejected: Iterable[Counts] = (),
) -> list[Proposal]:
    """Return the best configurations with one more device, best first (section 3.4.2, step 2).

    If no configuration with one more device is faster, two more are tried, and so on. For example,
    four virtual workers on two equal devices gain nothing from a third, but gain from a third and a
    fourth together.

    Args:
        planner: planner of the job.
        job_id: id of the job.
        order: rank of the job among equals.
        held: devices of each type that the job has.
        free: devices of each type that the job may add.
        least: devices that the job must have in all.
        most: devices that the job may have in all.
        max_added: devices that a proposal may add; 1 is the paper's step.
        top_k: proposals submitted.
        one_type: only configurations of one device type.
        exchange: true to include configurations for which the job gives back devices of other
            types.
        rejected: choices of devices that have turned out slower.
    """
    now = planner.best(held) if any(held) else None
    never = set(rejected)
    for added in range(1, min(max_added, most if exchange else most - sum(held)) + 1):
        ways = (
            nums
            for nums in choices(held, added, free, one_type, exchange)
            if least <= sum(nums) <= most and nums not in never
        )
        found = [
            Proposal(job_id, order, one, _beyond(one.nums, held), _gain(one, now, added))
            for one in planner.configurations(ways)
            if now is None or one.perf > now.perf * (1 + 1e-9)
        ]
        if found:
            return sorted(found, key=_by_speed)[:top_k]
    return []


def starts(
    planner: Planner,
    *,
    job_id: str,
    order: tuple[float, str],
    free: Counts,
    least: int,
    one_type: bool,
) -> list[Proposal]:
    """Return the ways in which a job without devices can begin, fastest first.

    Each has the job's least number of devices. The limit of waste does not apply, because the job
    cannot start with fewer devices.
    """
    none = (0,) * len(free)
    found = [planner.best(nums) for nums in choices(none, least, free, one_type)]
    proposals = [
        Proposal(job_id, order, one, one.nums, float("inf")) for one in found if one is not None
    ]
    return sorted(proposals, key=_by_speed)


def accept(proposals: Sequence[Proposal], available: Counts) -> list[Proposal]:
    """Return the approved proposals, at most one for a job (Algorithm 1).

    The best speed-up per device comes first, then the proposal with more devices. Ties break by
    arrival, job id and the order given. Each proposal that still fits is approved.

    The printed loop removes a proposal only when it is approved, so it never ends when a proposal
    does not fit. Here every proposal is removed.
    """
    left = list(available)
    approved: dict[str, Proposal] = {}
    for one in sorted(proposals, key=lambda p: (-p.speedup_per_slot, -p.num_added, p.order)):
        if one.job_id not in approved and fits(one.added, left):
            approved[one.job_id] = one
            left = [count - more for count, more in zip(left, one.added, strict=True)]
    return list(approved.values())


def fits(added: Counts, available: Sequence[int]) -> bool:
    """Return whether there are enough devices of each type."""
    return all(more <= count for more, count in zip(added, available, strict=True))


def _by_speed(proposal: Proposal) -> tuple[float, float, Counts]:
    """Return the sort key: fastest first, then least waste, then more of the first types."""
    one = proposal.configuration
    return -one.perf, one.waste, tuple(-count for count in one.nums)


def _gain(new: Configuration, old: Configuration | None, added: int) -> float:
    return float("inf") if old is None else (new.perf / old.perf - 1) / added


def _beyond(a: Counts, b: Counts) -> Counts:
    return tuple(max(0, x - y) for x, y in zip(a, b, strict=True))

"""Rules for decisions, checked before the replay acts on a decision."""

from __future__ import annotations

from harness.contracts.abilities import Abilities
from harness.contracts.decision import Decision, Grant, Refuse
from harness.contracts.job import JobSpec
from harness.contracts.job_state import JobState
from harness.contracts.view import ClusterView, JobView
from harness.errors import RunError


class DecisionError(RunError):
    """Violation of a rule by a scheduler; the text names scheduler, time, job and rule."""


def check_decision(
    decision: Decision, view: ClusterView, abilities: Abilities, scheduler: str
) -> None:
    """Check a decision against the view from which it was made.

    Raises:
        DecisionError: a rule was broken; the text lists every broken rule.
    """
    problems: list[str] = []
    granted = view.num_granted
    for job_id, action in decision.changes.items():
        job = view.jobs.get(job_id)
        if job is None:
            problems.append(f"job {job_id!r} is not there (not arrived yet, or ended)")
            continue
        granted -= job.grant.num_slots if job.grant else 0
        if isinstance(action, Grant):
            granted += action.num_slots
            problems += _check_grant(action, job, view, abilities)
        elif isinstance(action, Refuse):
            if job.state not in (JobState.PENDING, JobState.SUSPENDED):
                problems.append(f"job {job_id!r} is {job.state}; only a waiting job is refused")
        elif job.slots and not abilities.suspend:
            problems.append(f"job {job_id!r}: the backend cannot suspend")
    # Slots that went down can leave earlier grants over the capacity, without a scheduler's fault.
    if granted > max(view.num_usable, view.num_granted):
        problems.append(f"{granted} slots granted, but only {view.num_usable} are usable")
    if problems:
        raise DecisionError(
            f"{scheduler} at {view.time_s} s made an impossible decision:\n  "
            + "\n  ".join(problems)
        )


def _check_grant(grant: Grant, job: JobView, view: ClusterView, abilities: Abilities) -> list[str]:
    spec = job.spec
    problems = []
    most = spec.max_slots if spec.max_slots is not None else view.cluster.num_slots
    if not spec.min_slots <= grant.num_slots <= most:
        problems.append(f"{grant.num_slots} slots are outside [{spec.min_slots}, {most}]")
    if not spec.elastic and grant.num_slots != spec.requested_slots:
        problems.append(
            f"{grant.num_slots} slots, but the job is not elastic and requests"
            f" {spec.requested_slots}"
        )
    if grant.slots is not None:
        known = view.cluster.num_slots
        if len(set(grant.slots)) != grant.num_slots or len(grant.slots) != grant.num_slots:
            problems.append(f"{grant.num_slots} slots granted, but named {grant.slots}")
        if any(not 0 <= slot < known or slot in view.down_slots for slot in grant.slots):
            problems.append(f"a slot of {grant.slots} does not exist or is down")
    if grant.virtual_workers is not None:
        problems += _check_plan(grant.virtual_workers, grant.num_slots, spec)
    if grant.global_batch is not None:
        low, high = spec.batch_range
        if not low <= grant.global_batch <= high:
            problems.append(f"global batch {grant.global_batch} is outside [{low}, {high}]")
        if grant.global_batch != spec.global_batch and not abilities.change_batch:
            problems.append("the backend cannot change the batch")
    if not 0.0 < grant.share <= 1.0:
        problems.append(f"share {grant.share} is not above 0 and at most 1")
    if grant.share != 1.0 and not abilities.share_device:
        problems.append(f"share {grant.share}, but the backend cannot share a device")
    if grant.share != 1.0 and not (view.cluster.shared_speed and grant.slots):
        problems.append(
            f"share {grant.share}, but "
            + ("no slots are named" if view.cluster.shared_speed else "no devices are shared here")
        )
    if job.slots and not abilities.rescale and grant.num_slots != len(job.slots):
        problems.append(f"{len(job.slots)} to {grant.num_slots} slots: the backend cannot rescale")
    return [f"job {spec.job_id!r}: {problem}" for problem in problems]


def _check_plan(workers: tuple[int, ...], num_slots: int, spec: JobSpec) -> list[str]:
    if len(workers) != num_slots or min(workers) < 1:
        return [f"virtual workers {workers} are not one or more on each of {num_slots} slots"]
    if sum(workers) != spec.num_logical_workers:
        return [
            f"virtual workers {workers} are not the job's {spec.num_logical_workers} in all"
            " (logical_workers, or requested_slots)"
        ]
    return []

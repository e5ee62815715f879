"""Checks for combinations of options that cannot work, made before anything is started."""

from __future__ import annotations

from collections.abc import Sequence

from harness.cluster import Cluster
from harness.contracts.backend import Backend
from harness.contracts.job import JobSpec
from harness.contracts.placement import Arranging, Placement
from harness.contracts.scheduler import Knowledge, Requirement, Scheduler
from harness.errors import Problem
from harness.profiles import Profile
from harness.trace.model.events import TraceEvent

_FEW = 3


def ability_problems(
    scheduler: Scheduler, backend: Backend, scaling: str, names: tuple[str, str]
) -> list[Problem | str]:
    """Return abilities that the scheduler requires and the backend lacks.

    Args:
        scheduler: the deciding rule.
        backend: the mechanism.
        scaling: ``strong``, ``weak`` or ``adaptive``.
        names: chosen options of scheduler and backend, for the text.
    """
    chosen, mechanism = names
    problems: list[Problem | str] = []
    lacking = [r for r in Requirement if r in scheduler.requires and not _can(backend, r)]
    for requirement in lacking:
        can = [r.value for r in Requirement if _can(backend, r)]
        problems.append(
            Problem(
                f"scheduler={chosen}, backend={mechanism}",
                f"{chosen} needs a backend that can {_words(requirement)} and {mechanism} cannot"
                f" (it can: {', '.join(can) or 'start and finish jobs'})",
                "choose another backend (for example backend=stop_resume), or a scheduler that"
                " never asks for it (for example scheduler=fifo)",
            )
        )
    rescales = Requirement.RESCALE in scheduler.requires
    if scaling == "weak" and rescales and not _can(backend, Requirement.CHANGE_BATCH):
        problems.append(
            Problem(
                f"scaling=weak, backend={mechanism}",
                "weak scaling changes the global batch at every rescale, but this backend cannot "
                "change it",
                "use scaling=strong, or a backend that can change the batch",
            )
        )
    if scaling == "adaptive" and not backend.abilities.adapt_batch:
        problems.append(
            Problem(
                f"scaling=adaptive, backend={mechanism}",
                "jobs would choose their own batch, but this backend cannot change the batch",
                "use backend=stop_free, warm_restart or stop_resume, or scaling=strong",
            )
        )
    return problems


def placement_problems(
    placement: Placement, backend: Backend, names: tuple[str, str]
) -> list[Problem | str]:
    """Return a problem if the placement moves jobs and the backend cannot.

    Args:
        placement: the rule that turns counts into slots.
        backend: the mechanism.
        names: chosen options of placement and backend, for the text.
    """
    if not isinstance(placement, Arranging) or _can(backend, Requirement.MIGRATE):
        return []
    chosen, mechanism = names
    fact = f"{chosen} moves jobs to make room for others, but {mechanism} cannot migrate jobs"
    hint = "use a placement that moves no jobs (for example placement=buddy), or another backend"
    return [Problem(f"placement={chosen}, backend={mechanism}", fact, hint)]


def _can(backend: Backend, requirement: Requirement) -> bool:
    return bool(getattr(backend.abilities, requirement.value))


def _words(requirement: Requirement) -> str:
    return {
        Requirement.CHANGE_BATCH: "change the batch",
        Requirement.SHARE_DEVICE: "share a device",
    }.get(requirement, f"{requirement.value} jobs")


def size_problems(
    jobs: Sequence[JobSpec], cluster: Cluster, names: tuple[str, str]
) -> list[Problem | str]:
    """Return a problem for jobs that ask for more slots than the cluster has.

    Under a gang scheduler such a job would wait without end.

    Args:
        jobs: jobs of the trace, as they will be replayed.
        cluster: cluster of the run.
        names: chosen options of trace and cluster, for the text.
    """
    large = [job for job in jobs if max(job.requested_slots, job.min_slots) > cluster.num_slots]
    if not large:
        return []
    worst = sorted(large, key=lambda job: (-job.requested_slots, job.order))[:_FEW]
    examples = ", ".join(f"{job.job_id} asks for {job.requested_slots}" for job in worst)
    more = ", ..." if len(large) > _FEW else ""
    return [
        Problem(
            f"trace={names[0]}, cluster={names[1]}",
            f"{len(large)} of {len(jobs)} jobs ask for more than the cluster's"
            f" {cluster.num_slots} slots ({examples}{more})",
            "choose a larger cluster, or cap the demand with a transform of the trace",
        )
    ]


def device_problems(
    scheduler: Scheduler, cluster: Cluster, names: tuple[str, str]
) -> list[Problem | str]:
    """Return a problem if the cluster has several device types and the scheduler treats all slots
    as equal.

    Such a scheduler has ``one_device_type``; other schedulers leave the type to the placement.

    Args:
        scheduler: the deciding rule.
        cluster: cluster of the run.
        names: chosen options of scheduler and cluster, for the text.
    """
    types = cluster.device_types
    if len(types) < 2 or not getattr(scheduler, "one_device_type", False):
        return []
    return [
        Problem(
            f"scheduler={names[0]}, cluster={names[1]}",
            f"{names[0]} divides devices of a single type, but the cluster has {len(types)} "
            f"({', '.join(types)})",
            "choose a cluster of one device type, or a scheduler that distinguishes types (for "
            "example scheduler=easyscale)",
        )
    ]


def sharing_problems(
    scheduler: Scheduler, cluster: Cluster, names: tuple[str, str]
) -> list[Problem | str]:
    """Return a problem if the scheduler puts several jobs on a device and the cluster shares none.

    Args:
        scheduler: the deciding rule.
        cluster: cluster of the run.
        names: chosen options of scheduler and cluster, for the text.
    """
    if Requirement.SHARE_DEVICE not in scheduler.requires or cluster.shared_speed:
        return []
    return [
        Problem(
            f"scheduler={names[0]}, cluster={names[1]}",
            f"{names[0]} lets jobs share devices, but the cluster has no speeds of shared devices "
            "(shared_speed)",
            "choose cluster=a100x128_shared or another with shared_speed, or add it to this one"
            " (cluster.slots_per_device=2 +cluster.shared_speed=[1.0,0.5])",
        )
    ]


def event_problems(
    events: Sequence[TraceEvent], cluster: Cluster, names: tuple[str, str]
) -> list[Problem | str]:
    """Return a problem for events of slots that the cluster does not have.

    Args:
        events: events of the trace.
        cluster: cluster of the run.
        names: chosen options of trace and cluster, for the text.
    """
    known = range(cluster.num_slots)
    strange = sorted({slot for event in events for slot in event.slots if slot not in known})
    if not strange:
        return []
    return [
        Problem(
            f"trace={names[0]}, cluster={names[1]}",
            f"the trace's events name {len(strange)} slots that are not among the cluster's"
            f" {cluster.num_slots} (first: {strange[0]})",
            "choose a larger cluster, or other slots for the events",
        )
    ]


def shown_speed_problems(
    scheduler: Scheduler, jobs: Sequence[JobSpec], profile: Profile, cluster: Cluster, name: str
) -> list[Problem]:
    """Return a problem for each speed that the scheduler must see and the profile lacks.

    The replay asks for the curve of a job when it arrives, which may be minutes of training later.

    Args:
        scheduler: the deciding rule.
        jobs: jobs of the trace, as they will be replayed.
        profile: profile of the run.
        cluster: cluster of the run.
        name: chosen option of scheduler, for the text.
    """
    if Knowledge.THROUGHPUT not in scheduler.needs:
        return []
    lacking = profile.curve_problems((job.workload for job in jobs), cluster.device_types)
    return [Problem(f"scheduler={name}", text) for text in lacking]

"""Gangs: how many slots a job gets under a scheduler that does not size jobs itself."""

from __future__ import annotations

from harness.cluster import Cluster
from harness.contracts.scheduler import Refuse
from harness.trace.job import JobSpec


def gang_slots(spec: JobSpec) -> int:
    """Slots of the job as a gang: its request, within its own slot range if it is elastic."""
    if not spec.elastic:
        return spec.requested_slots
    most = spec.requested_slots if spec.max_slots is None else spec.max_slots
    return max(spec.min_slots, min(spec.requested_slots, most))


def least_slots(spec: JobSpec) -> int:
    """Fewest slots an elastic scheduler may give the job."""
    return spec.min_slots if spec.elastic else spec.requested_slots


def refuse_misfit(spec: JobSpec, num_slots: int, cluster: Cluster) -> Refuse | None:
    """A refusal if ``num_slots``, the fewest this job would get, can never be granted.

    A job that no state of the cluster can serve would otherwise wait for ever and, under a
    strict queue, hold up everybody behind it.
    """
    if not spec.elastic and not spec.min_slots <= num_slots <= (spec.max_slots or num_slots):
        return Refuse(
            f"the job is not elastic and asks {num_slots} slots, outside its own range"
            f" [{spec.min_slots}, {spec.max_slots}]; correct the trace"
        )
    most = len(cluster.devices)
    if num_slots > most:
        return Refuse(
            f"the job needs {num_slots} slots at once, but cluster {cluster.name!r} has"
            f" {most}; cap its demand or choose a larger cluster"
        )
    return None

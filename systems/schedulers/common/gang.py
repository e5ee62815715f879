"""Slots of a job under a scheduler that does not choose job sizes itself."""

from __future__ import annotations

from harness.cluster import Cluster
from harness.contracts.decision import Refuse
from harness.contracts.job import JobSpec


def gang_slots(spec: JobSpec) -> int:
    """Return the job's slots as a gang: its request, within its slot range if it is elastic."""
    if not spec.elastic:
        return spec.requested_slots
    most = spec.requested_slots if spec.max_slots is None else spec.max_slots
    return max(spec.min_slots, min(spec.requested_slots, most))


def least_slots(spec: JobSpec) -> int:
    """Return the fewest slots that an elastic scheduler may give the job."""
    return spec.min_slots if spec.elastic else spec.requested_slots


def refuse_misfit(spec: JobSpec, num_slots: int, cluster: Cluster) -> Refuse | None:
    """Return a refusal if the cluster can never grant ``num_slots``, the fewest the job would get.

    Without the refusal such a job would wait without end. Under a strict queue it would also block
    every job behind it.
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

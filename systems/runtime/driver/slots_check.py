"""Check that a job can train on the slots of a change."""

from __future__ import annotations

from harness.cluster import Cluster
from harness.contracts.change import Change
from systems.runtime.wire.virtual_plan import AssignmentError, check_counts


def slots_problem(change: Change, cluster: Cluster, *, virtual: bool = False) -> str | None:
    """Return why a job cannot train on these slots, or None.

    ``virtual`` is true if the job's logical workers take turns on them.
    """
    count = len(change.slots)
    unknown = [slot for slot in change.slots if not 0 <= slot < cluster.num_slots]
    if count == 0:
        return "no slots were given"
    if unknown:
        return (
            f"slots {unknown} are not in cluster {cluster.name!r},"
            f" which has slots 0 to {cluster.num_slots - 1}"
        )
    if len(set(change.slots)) < count:
        return f"slots {list(change.slots)} name a slot twice"
    if count > change.global_batch:
        return (
            f"{count} slots cannot share a global batch of {change.global_batch}:"
            " every worker needs at least 1 sample; use fewer slots or a larger batch"
        )
    logical = change.job.num_logical_workers
    if virtual and count > logical:
        return (
            f"{count} slots are too many for {logical} logical workers, of which every slot needs"
            " one at least; use fewer slots, or give the job more (logical_workers)"
        )
    if virtual and logical > change.global_batch:
        return (
            f"{logical} logical workers cannot share a global batch of {change.global_batch}:"
            " each needs at least 1 sample; use fewer of them or a larger batch"
        )
    if virtual and change.virtual_workers:
        try:
            check_counts(change.virtual_workers, logical, count)
        except AssignmentError as error:
            return str(error)
    return None

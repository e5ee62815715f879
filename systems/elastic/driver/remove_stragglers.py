"""Removals: the driver asks workers that are too slow to leave (EDL, section 5.2).

A removal is a scale-in, but no scheduler has requested it. So it is reported as a grant that has
shrunk. The job makes one adjustment at a time. A scheduler's request during a removal is answered
with RETRY once the removal is over: an immediate RETRY would be repeated in vain until then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from harness.contracts.change import Change, ChangeKind
from harness.contracts.job import JobSpec
from systems.elastic.driver.pending_change import PendingChange, Removal
from systems.elastic.wire.options import ElasticOptions


def removal_of(
    slowness: Mapping[str, float],
    slots: Mapping[str, int],
    job: JobSpec,
    global_batch: int,
    number: int,
    options: ElasticOptions,
) -> PendingChange | None:
    """Return the change that removes stragglers, the slowest first; None: none can be spared.

    Args:
        slowness: each straggler's time over the median.
        slots: slots of the workers that train now, by worker in the order of ranks.
        job: job of these workers; it keeps its least number of slots.
        global_batch: stays as it is.
        number: above 0, and unique in the job's life; its negative is the change's id, which no
            request has.
        options: ratio and window, for the reason, and the longest time that the removal may take.
    """
    members = list(slots)
    known = [worker for worker in members if worker in slowness]
    slowest = sorted(known, key=lambda worker: -slowness[worker])
    chosen = slowest[: max(0, len(members) - max(1, job.min_slots))]
    if not chosen:
        return None
    new = tuple(worker for worker in members if worker not in chosen)
    named = ", ".join(f"{worker} ({slowness[worker]:.2f} times the median)" for worker in chosen)
    now = time.monotonic()
    removal = Removal(
        workers=tuple(chosen),
        slots=tuple(slots[worker] for worker in chosen),
        reason=f"straggler: {named} of {len(members)} workers, above straggler_ratio"
        f" {options.straggler_ratio:g} in straggler_window {options.straggler_window} steps"
        " running",
        detected_at=now,
    )
    after = tuple(slots[worker] for worker in new)
    change = Change(-number, ChangeKind.RESCALE, job, tuple(slots.values()), after, global_batch)
    deadline = now + options.adjust_timeout_s
    return PendingChange(change, tuple(members), new, (), deadline, removal=removal)
